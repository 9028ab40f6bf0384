// SPDX-License-Identifier: Apache-2.0
// Implements the interface of directory.hpp for an opened volume. Each call resolves its path anew;
// for a single name that is one look-up.
#include "apps/warren/directory.hpp"

namespace warren::cli {

namespace {

class VolumeFile : public OpenFile {
 public:
    VolumeFile(Volume& volume, const Caller& caller, Handle handle)
        : volume_(volume), caller_(caller), handle_(handle) {}
    ~VolumeFile() override {
        if (!closed_) static_cast<void>(volume_.release(handle_));
    }

    Result<u64> read(u64 offset, std::span<std::byte> target) override {
        return volume_.read(handle_, offset, target);
    }
    Result<u64> write(u64 offset, std::span<const std::byte> source) override {
        return volume_.write(handle_, offset, source);
    }
    Result<u64> seek(u64 offset, Seek whence) override {
        return volume_.seek(handle_, offset, whence);
    }
    Errc set_size(u64 size_bytes) override {
        AttributeChange change;
        change.which = AttributeChange::size;
        change.new_size = size_bytes;
        return volume_.set_attributes(caller_, handle_, change).code();
    }
    Errc share_blocks_of(OpenFile& source) override {
        const auto* from = dynamic_cast<const VolumeFile*>(&source);
        if (from == nullptr || &from->volume_ != &volume_) return Errc::cross_device;
        return volume_.share_range(from->handle_, 0, handle_, 0, ~u64{0}).code();
    }
    Errc close() override {
        closed_ = true;
        return volume_.release(handle_);
    }

 private:
    Volume& volume_;
    Caller caller_;
    Handle handle_;
    bool closed_ = false;
};

class VolumeDirectory : public Directory {
 public:
    VolumeDirectory(Volume& volume, const Caller& caller, Handle handle)
        : volume_(volume), caller_(caller), handle_(handle) {}

    Result<Facts> stat(std::string_view name, Follow follow) override;
    Errc list(std::vector<Name>& names) override;
    Errc open_directory(std::string_view name, Follow follow,
                        std::shared_ptr<Directory>& result) override;
    Errc open_file(std::string_view name, Follow follow, Access access,
                   std::unique_ptr<OpenFile>& result) override;
    Errc create_file(std::string_view name, u32 mode, std::unique_ptr<OpenFile>& result) override;
    Errc create(std::string_view name, const CreateOptions& options) override;
    Errc link(std::string_view existing, std::string_view name) override;
    Errc remove(std::string_view name) override;
    Errc remove_directory(std::string_view name) override;
    Errc read_link(std::string_view name, std::string& target) override;
    Errc change(std::string_view name, Follow follow, const AttributeChange& change) override;
    Errc list_attributes(std::string_view name, std::vector<std::string>& names) override;
    Errc get_attribute(std::string_view name, const std::string& attribute,
                       std::vector<std::byte>& value) override;
    Errc set_attribute(std::string_view name, const std::string& attribute,
                       std::span<const std::byte> value) override;

 private:
    Result<Attributes> find(std::string_view name, Follow follow) {
        if (name.empty()) return volume_.attributes(handle_);
        return PathWalker(volume_, caller_).find(handle_, name, follow);
    }
    Errc locate_new(std::string_view name, Slash slash, Located& located);

    Volume& volume_;
    Caller caller_;
    Handle handle_;
};

/// Resolves the directory for a new name. A path that ends at a directory itself names something
/// that exists.
Errc VolumeDirectory::locate_new(std::string_view name, Slash slash, Located& located) {
    WARREN_TRY(PathWalker(volume_, caller_).locate(handle_, name, located, slash));
    return located.name.empty() ? Errc::exists : Errc::ok;
}

Result<Facts> VolumeDirectory::stat(std::string_view name, Follow follow) {
    WARREN_LET(found, find(name, follow));
    return Facts{*found, reinterpret_cast<u64>(&volume_)};
}

Errc VolumeDirectory::list(std::vector<Name>& names) {
    return volume_.read_directory(handle_, 0, [&](const DirectoryEntry& entry) {
        names.push_back({std::string(entry.name), entry.inode});
        return true;
    });
}

Errc VolumeDirectory::open_directory(std::string_view name, Follow follow,
                                     std::shared_ptr<Directory>& result) {
    WARREN_LET(found, find(name, follow));
    if ((found->mode & 0170000) != 0040000) return Errc::not_directory;
    result = std::make_shared<VolumeDirectory>(volume_, caller_, found->handle);
    return Errc::ok;
}

Errc VolumeDirectory::open_file(std::string_view name, Follow follow, Access access,
                                std::unique_ptr<OpenFile>& result) {
    WARREN_LET(found, find(name, follow));
    const u32 type = found->mode & 0170000;
    if (type == 0040000) return Errc::is_directory;
    if (type == 0120000) return Errc::loop;
    if (type != 0100000) return access == Access::write ? no_such_place : Errc::invalid;
    WARREN_TRY(volume_.open_file(found->handle));
    result = std::make_unique<VolumeFile>(volume_, caller_, found->handle);
    return Errc::ok;
}

Errc VolumeDirectory::create_file(std::string_view name, u32 mode,
                                  std::unique_ptr<OpenFile>& result) {
    Located located;
    WARREN_TRY(locate_new(name, Slash::refused, located));
    CreateOptions options;
    options.mode = 0100000 | (mode & 07777);
    options.open = true;
    WARREN_LET(made, volume_.create(caller_, located.directory, located.name, options));
    result = std::make_unique<VolumeFile>(volume_, caller_, made->handle);
    return Errc::ok;
}

Errc VolumeDirectory::create(std::string_view name, const CreateOptions& options) {
    Located located;
    const bool is_directory = (options.mode & 0170000) == 0040000;
    WARREN_TRY(locate_new(name, is_directory ? Slash::ignored : Slash::refused, located));
    return volume_.create(caller_, located.directory, located.name, options).code();
}

Errc VolumeDirectory::link(std::string_view existing, std::string_view name) {
    WARREN_LET(found, find(existing, Follow::no));
    Located located;
    WARREN_TRY(locate_new(name, Slash::refused, located));
    return volume_.link(caller_, found->handle, located.directory, located.name).code();
}

Errc VolumeDirectory::remove(std::string_view name) {
    Located located;
    WARREN_TRY(PathWalker(volume_, caller_).locate(handle_, name, located));
    if (located.name.empty()) return Errc::is_directory;
    return volume_.unlink(caller_, located.directory, located.name);
}

Errc VolumeDirectory::remove_directory(std::string_view name) {
    Located located;
    WARREN_TRY(PathWalker(volume_, caller_).locate(handle_, name, located));
    if (located.name.empty()) return Errc::busy;
    return volume_.remove_directory(caller_, located.directory, located.name);
}

Errc VolumeDirectory::read_link(std::string_view name, std::string& target) {
    WARREN_LET(found, find(name, Follow::no));
    Result<std::string> read = volume_.read_link(found->handle);
    if (!read) return read.code();
    target = std::move(*read);
    return Errc::ok;
}

Errc VolumeDirectory::change(std::string_view name, Follow follow, const AttributeChange& change) {
    WARREN_LET(found, find(name, follow));
    return volume_.set_attributes(caller_, found->handle, change).code();
}

Errc VolumeDirectory::list_attributes(std::string_view name, std::vector<std::string>& names) {
    WARREN_LET(found, find(name, Follow::no));
    const Result<u64> size = volume_.list_attributes(found->handle, {});
    if (!size) return size.code();
    if (*size == 0) return Errc::ok;
    std::vector<char> text(*size);
    WARREN_LET(filled, volume_.list_attributes(found->handle, text));
    for (std::string_view rest(text.data(), *filled); !rest.empty();) {
        const size_t end = std::min(rest.find('\0'), rest.size());
        names.emplace_back(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return Errc::ok;
}

Errc VolumeDirectory::get_attribute(std::string_view name, const std::string& attribute,
                                    std::vector<std::byte>& value) {
    WARREN_LET(found, find(name, Follow::no));
    const Result<u64> size = volume_.get_attribute(found->handle, attribute, {});
    if (!size) return size.code();
    value.resize(*size);
    if (value.empty()) return Errc::ok;
    WARREN_LET(filled, volume_.get_attribute(found->handle, attribute, value));
    value.resize(*filled);
    return Errc::ok;
}

Errc VolumeDirectory::set_attribute(std::string_view name, const std::string& attribute,
                                    std::span<const std::byte> value) {
    WARREN_LET(found, find(name, Follow::no));
    return volume_.set_attribute(caller_, found->handle, attribute, value);
}

}  // namespace

std::shared_ptr<Directory> volume_directory(Volume& volume, const Caller& caller) {
    return std::make_shared<VolumeDirectory>(volume, caller, volume.root());
}

}  // namespace warren::cli
