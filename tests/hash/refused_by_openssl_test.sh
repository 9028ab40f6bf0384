#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Where OpenSSL's configuration forbids digests (as in FIPS mode; here all of them, because no
# provider has the requested property), Warren computes them all the same.
set -euo pipefail

tests=$WARREN_BUILD/tests/test_hash
[[ -x $tests ]] || { echo "no $tests"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/openssl.cnf" <<'TEXT'
openssl_conf = init
[init]
alg_section = algorithms
[algorithms]
default_properties = fips=yes
TEXT
export OPENSSL_CONF=$folder/openssl.cnf
if command -v openssl >/dev/null && openssl sha256 </dev/null >/dev/null 2>&1; then
    echo "this OpenSSL takes no such configuration"
    exit 77
fi
"$tests" --gtest_filter='HashDigest.AgreesWith*:HashDigest.SequentialStreams*' | tail -n 3
