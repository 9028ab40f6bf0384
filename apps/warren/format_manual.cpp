// SPDX-License-Identifier: Apache-2.0
// What an administrator needs to know about the format; all numbers come from the structures.
#include <cstddef>

#include "apps/warren/manual_page.hpp"
#include "apps/warren/roff_page.hpp"
#include "fs/format/superblock.hpp"

namespace warren::cli {

namespace {

using format::Superblock;

std::string number(u64 value) {
    return std::to_string(value);
}

/// The magic without the line feed at its end.
std::string magic_word() {
    std::string word;
    for (u32 at = 0; at + 1 < sizeof(format::magic); ++at)
        word += static_cast<char>(format::magic >> (8 * at));
    return word;
}

void describe_superblock(ManualPage& manual) {
    manual.heading("IDENTIFICATION");
    manual.paragraphs("The first block of " + number(format::block_size) +
                      " bytes is the superblock; a second copy is at byte " +
                      number(format::superblock_copy_offset) + ". Each has at these offsets:");
    const auto entry = [&](size_t at, const std::string& what) { manual.entry(number(at), what); };
    entry(offsetof(Superblock, magic), "magic, " + number(sizeof(format::magic)) + " bytes: `" +
                                           magic_word() + "` and a line feed");
    entry(offsetof(Superblock, version_major),
          "major version, 4 bytes: " + number(format::version_major));
    entry(offsetof(Superblock, version_minor),
          "minor version, 4 bytes: " + number(format::version_minor));
    entry(offsetof(Superblock, features_compatible), "compatible feature bits, 8 bytes");
    entry(offsetof(Superblock, features_read_only_compatible),
          "feature bits that are compatible for reading, 8 bytes");
    entry(offsetof(Superblock, features_incompatible), "incompatible feature bits, 8 bytes");
    entry(offsetof(Superblock, uuid), "UUID, 16 bytes, in the order of its printed digits");
    entry(offsetof(Superblock, label),
          "label, " + number(sizeof(Superblock::label)) + " bytes of UTF-8, padded with zeros");
    entry(offsetof(Superblock, size_bytes), "size of the volume in bytes, 8 bytes");
    entry(offsetof(Superblock, clean),
          "4 bytes: 1 if the volume was closed cleanly, 0 if it is open for writing or was cut "
          "off");
    manual.paragraphs(
        "`warren info` shows label, UUID and size. blkid(8) does not know the format, so a line of "
        "fstab(5) names the image or device, not a label or UUID, and the type warren.");
}

}  // namespace

std::string format_manual() {
    ManualPage manual("warren-format", 5, "the format of a Warren volume");
    manual.heading("DESCRIPTION");
    manual.paragraphs(
        "A Warren volume is a file or a block device of " + number(format::volume_size_min / mib) +
        " MiB to " + number(format::volume_size_max / tib) +
        " TiB. All of it belongs to the volume: there is no room for a boot sector. Numbers are "
        "little-endian. This page says how a volume is recognized and which programs open it. The "
        "full and only normative text is FORMAT.md, in docs/ of the sources and beside the "
        "program's documentation.");
    describe_superblock(manual);
    manual.heading("COMPATIBILITY");
    manual.paragraphs(
        "This program writes version " + number(format::version_major) + "." +
        number(format::version_minor) +
        ". It refuses a volume of another major version, and one with an incompatible feature bit "
        "that it does not know. With an unknown bit among those that are compatible for reading it "
        "only reads the volume. It ignores the minor version and unknown compatible bits. `warren "
        "fsck` refuses a volume with an unknown bit of the other two kinds.");
    manual.heading("EXAMPLES");
    manual.paragraphs("Lines for magic(5), by which file(1) recognizes a volume:");
    manual.lines(number(offsetof(Superblock, magic)) + "  string  " + magic_word() +
                 "\\n  Warren volume\n>" + number(offsetof(Superblock, version_major)) +
                 "  lelong  x  version %d\n>" + number(offsetof(Superblock, version_minor)) +
                 "  lelong  x  \\b.%d");
    manual.paragraphs("A line of fstab(5):");
    manual.lines("/srv/volume.img  /mnt/warren  warren  noatime,nofail  0  2");
    manual.see_also({"warren(1)", "warren-info(1)", "fsck.warren(8)", "mkfs.warren(8)",
                     "mount.warren(8)", "fstab(5)", "magic(5)"});
    return manual.text();
}

}  // namespace warren::cli
