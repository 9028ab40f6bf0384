// SPDX-License-Identifier: Apache-2.0
// Loaded before a test without the label `threads`, which the thread sanitizer does not run: ends
// the test if it starts a thread. See tests/label_threads.py.
#include <pthread.h>

#include <cstdio>
#include <cstdlib>

extern "C" int pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) {
    std::fputs(
        "this test starts a thread, but tests/label_threads.py finds nothing in its source "
        "that does: extend the list there\n",
        stderr);
    std::abort();
}
