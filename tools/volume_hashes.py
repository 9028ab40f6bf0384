# SPDX-License-Identifier: Apache-2.0
"""The checksum and the name hash of a Warren volume, by docs/FORMAT.md alone."""
import struct

MASK = (1 << 64) - 1


def make_crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CRC_TABLE = make_crc_table()


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    table = CRC_TABLE
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def name_hash(key, name):
    """The 55-bit hash of a name: SipHash-1-3, shifted, with the greatest value kept free."""
    a, b = key[0] ^ 0x736F6D6570736575, key[1] ^ 0x646F72616E646F6D
    c, d = key[0] ^ 0x6C7967656E657261, key[1] ^ 0x7465646279746573

    def turn(x, by):
        return ((x << by) | (x >> (64 - by))) & MASK

    def stir(a, b, c, d):
        a, c = (a + b) & MASK, (c + d) & MASK
        b, d = turn(b, 13) ^ a, turn(d, 16) ^ c
        a = turn(a, 32)
        c, a = (c + b) & MASK, (a + d) & MASK
        b, d = turn(b, 17) ^ c, turn(d, 21) ^ a
        return a, b, turn(c, 32), d

    whole = len(name) // 8 * 8
    last = name[whole:] + bytes(7 - len(name) % 8) + bytes([len(name) & 255])
    for at in range(0, whole, 8):
        (word,) = struct.unpack_from('<Q', name, at)
        d ^= word
        a, b, c, d = stir(a, b, c, d)
        a ^= word
    (word,) = struct.unpack('<Q', last)
    d ^= word
    a, b, c, d = stir(a, b, c, d)
    a ^= word
    c ^= 255
    for _ in range(3):
        a, b, c, d = stir(a, b, c, d)
    result = (a ^ b ^ c ^ d) >> 9
    return result if result != (1 << 55) - 1 else result - 1
