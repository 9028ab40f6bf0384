// SPDX-License-Identifier: Apache-2.0
// A file passes through one buffer: it is filled and cut, the complete chunks in it are digested in
// parallel and passed on, and the incomplete chunk moves to the front. A GPU gets a larger buffer,
// which is pinned so that copies run at the full speed of the bus.
//
// Invariant: the buffer begins with the incomplete chunk, and grows only if one chunk does not fit.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/last_error.hpp"
#include "base/processors.hpp"
#include "base/stopwatch.hpp"
#include "base/zeros.hpp"
#include "dedup/cutting_rates.hpp"
#include "warren/chunk_gpu.hpp"
#include "warren/dedup.hpp"

namespace warren::dedup {

namespace {

constexpr u64 buffer_bytes_for_thread = 4 * mib;
constexpr u64 least_buffer_bytes = 16 * mib;
constexpr u64 most_buffer_bytes = 64 * mib;
constexpr u64 buffer_bytes_for_gpu = 128 * mib;
constexpr u64 least_feed_for_gpu = 1 * mib;
constexpr u64 least_file_for_model = 256 * mib;
constexpr u64 least_bytes_for_rate = 128 * mib;  // after which the CPU's rate is known
// A GPU thread digests one chunk: with longer chunks than this there are too few for all threads.
constexpr u64 longest_mean_for_gpu = 256 * kib;

/// Cuts into blocks of one size, with the interface of chunk::Chunker.
class BlockCutter {
 public:
    explicit BlockCutter(u64 block_bytes) : block_bytes_(block_bytes) {}

    void feed(std::span<const std::byte> bytes, std::vector<u64>& ends) {
        position_ += bytes.size();
        while (last_end_ + block_bytes_ <= position_)
            ends.push_back(last_end_ += block_bytes_);
    }
    void finish(std::vector<u64>& ends) {
        if (last_end_ < position_) ends.push_back(position_);
        position_ = last_end_ = 0;
    }

 private:
    u64 block_bytes_;
    u64 position_ = 0;
    u64 last_end_ = 0;
};

/// The average length of chunks of random bytes.
u64 mean_chunk_bytes(const Splitter& splitter) {
    if (splitter.block_bytes != 0) return splitter.block_bytes;
    const int bits = std::min(std::popcount(splitter.rule.mask), 40);
    const u64 free_bytes = (u64{1} << bits) * splitter.rule.stride_bytes;
    return std::min(splitter.rule.minimum_bytes + free_bytes, splitter.rule.maximum_bytes);
}

Result<u64> read_some(int descriptor, std::span<std::byte> target) {
    while (true) {
        const ssize_t count = ::read(descriptor, target.data(), target.size());
        if (count >= 0) return static_cast<u64>(count);
        if (errno != EINTR) return last_error();
    }
}

u64 bytes_ahead(int descriptor, u64 most_bytes) {
    struct stat status;
    if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return 0;
    const off_t at = ::lseek(descriptor, 0, SEEK_CUR);
    if (at < 0 || at > status.st_size) return 0;
    return std::min(static_cast<u64>(status.st_size - at), most_bytes);
}

}  // namespace

class ChunkReader::Implementation {
 public:
    explicit Implementation(const Splitter& splitter)
        : splitter_(splitter),
          buffer_bytes_(
              std::clamp(buffer_bytes_for_thread *
                             (splitter.threads != 0 ? splitter.threads : usable_processors()),
                         least_buffer_bytes, most_buffer_bytes)),
          digests_by_gpu_(mean_chunk_bytes(splitter) <= longest_mean_for_gpu),
          blocks_(splitter.block_bytes) {}

    Errc open() {
        if (splitter_.block_bytes == 0)
            WARREN_TRY(chunker_.open(splitter_.rule, splitter_.threads));
        if (splitter_.processor != hash::Processor::gpu) return Errc::ok;
        if (!hash::has_gpu()) return Errc::no_device;
        open_gpu();
        return Errc::ok;
    }

    Errc read(const Input& input, u64 size, const Visit& visit, u64 most_bytes) {
        input_ = &input;
        visit_ = &visit;
        left_ = most_bytes;
        filled_ = base_ = 0;
        ahead_ = size;
        uses_gpu_ = splitter_.processor == hash::Processor::gpu;
        is_undecided_ =
            splitter_.processor == hash::Processor::automatic && ahead_ >= least_file_for_model;
        decide();
        take_buffer();
        const Errc code = pass();
        if (code != Errc::ok) forget();
        return code;
    }

    const ReadWork& work() const { return work_; }

 private:
    Errc pass() {
        while (true) {
            if (filled_ == buffer_.size()) resize(buffer_.size() * 2);
            const u64 before = filled_;
            bool is_end = false;
            WARREN_TRY(fill(is_end));
            const Stopwatch clock;
            ends_.clear();
            used_gpu_ = false;
            feed(std::span<const std::byte>(buffer_).subspan(before, filled_ - before));
            if (is_end) finish();
            WARREN_TRY(digest());
            note_time(clock.seconds(), filled_ - before);
            WARREN_TRY(hand_on());
            if (is_end) return Errc::ok;
            decide();
            if (uses_gpu_) take_buffer();
        }
    }

    void note_time(double seconds, u64 bytes) {
        (used_gpu_ ? work_.gpu_seconds : cpu_seconds_) += seconds;
        (used_gpu_ ? work_.gpu_bytes : cpu_bytes_) += bytes;
        ahead_ -= std::min(ahead_, bytes);
    }

    /// Allocates the buffer for the CPU or the GPU, and opens the GPU if it is used.
    void take_buffer() {
        const Stopwatch clock;
        if (uses_gpu_) open_gpu();
        const u64 most = uses_gpu_ ? buffer_bytes_for_gpu : buffer_bytes_;
        // One byte more than expected detects the end. The CPU begins with a small buffer if the
        // length is unknown.
        const u64 unknown = uses_gpu_ ? most : least_buffer_bytes;
        const u64 expected = ahead_ != 0 ? filled_ + ahead_ + 1 : unknown;
        const u64 wanted = std::min({most, expected, filled_ + left_});
        if (buffer_.size() < wanted || buffer_.empty()) resize(std::max<u64>(wanted, 1));
        if (uses_gpu_) work_.gpu_seconds += clock.seconds();
    }

    /// Decides whether the GPU takes over the rest of the file, once the CPU's rate is known from
    /// its work so far.
    void decide() {
        if (!is_undecided_ || cpu_bytes_ < least_bytes_for_rate) return;
        is_undecided_ = false;
        uses_gpu_ = is_for_gpu(ahead_);
    }

    bool is_for_gpu(u64 bytes) {
        const double cpu =
            cpu_seconds_ / static_cast<double>(cpu_bytes_) * static_cast<double>(bytes);
        if (!hash::is_worth_a_gpu(cpu) || !hash::has_gpu()) return false;
        const double gpu = seconds_on_gpu(bytes);
        if (gpu == 0) return false;
        work_.asked_bytes += bytes;
        work_.predicted_cpu_seconds += cpu;
        work_.predicted_gpu_seconds += gpu;
        return gpu < cpu;
    }

    /// The predicted time; 0 if unknown. Each buffer is cut, then digested.
    double seconds_on_gpu(u64 bytes) {
        const u64 buffers = (bytes + buffer_bytes_for_gpu - 1) / buffer_bytes_for_gpu;
        const hash::Prediction digests = hash::predict(splitter_.algorithm, bytes, buffers);
        const CuttingRates rates = cutting_rates(splitter_);
        if (!rates.has_gpu || digests.gpu_seconds == 0) return 0;
        work_.startup_seconds = digests.startup_seconds;
        double start = has_gpu_ ? 0 : rates.gpu_start_seconds;
        if (buffer_.size() < buffer_bytes_for_gpu)
            start += rates.buffer_seconds_each * static_cast<double>(buffer_bytes_for_gpu);
        return start + rates.gpu_seconds_each * static_cast<double>(bytes) +
               (digests_by_gpu_ ? digests.gpu_seconds
                                : hash::predict_on_cpu(splitter_.algorithm, bytes));
    }

    void open_gpu() {
        if (splitter_.block_bytes != 0 || has_gpu_ || !work_.note.empty()) return;
        const Errc code = chunk::GpuChunker::has_kernel(splitter_.rule) ? gpu_.open(splitter_.rule)
                                                                        : Errc::not_supported;
        has_gpu_ = code == Errc::ok;
        if (has_gpu_) gpu_.pin(buffer_);
        if (code == Errc::not_supported) {
            work_.note = "the GPU has no kernel for this rule: the CPU cut";
        } else if (code != Errc::ok) {
            note_failure(code);
        }
    }

    void note_failure(Errc code) {
        work_.note = code == Errc::no_memory ? "the GPU has too little memory: the CPU cut"
                                             : "the GPU failed: the CPU cut";
    }

    void resize(u64 bytes) {
        if (has_gpu_) gpu_.pin({});
        buffer_.resize(bytes);
        if (has_gpu_) gpu_.pin(buffer_);
    }

    void feed(std::span<const std::byte> bytes) {
        if (splitter_.block_bytes != 0) return blocks_.feed(bytes, ends_);
        if (!uses_gpu_ || !has_gpu_ || bytes.size() < least_feed_for_gpu)
            return chunker_.feed(bytes, ends_);
        const Errc code = chunker_.feed_by_gpu(gpu_, bytes, ends_);
        used_gpu_ = code == Errc::ok;
        if (used_gpu_) return;
        note_failure(code);
        has_gpu_ = false;
        gpu_ = {};
    }

    void finish() { splitter_.block_bytes != 0 ? blocks_.finish(ends_) : chunker_.finish(ends_); }

    /// Resets the chunker after a file that was not read to its end.
    void forget() {
        ends_.clear();
        finish();
    }

    Errc fill(bool& is_end) {
        while (filled_ < buffer_.size()) {
            const u64 wanted = std::min(left_, buffer_.size() - filled_);
            const Result<u64> count =
                wanted == 0 ? Result<u64>(0) : (*input_)({buffer_.data() + filled_, wanted});
            if (!count) return count.code();
            if (*count == 0) {
                is_end = true;
                return Errc::ok;
            }
            filled_ += *count;
            left_ -= *count;
        }
        return Errc::ok;
    }

    /// Digests the chunks that end in the buffer.
    Errc digest() {
        const std::span<const std::byte> all(buffer_);
        pieces_.clear();
        u64 start = base_;
        for (u64 end : ends_) {
            pieces_.push_back(all.subspan(start - base_, end - start));
            start = end;
        }
        digests_.resize(pieces_.size() * hash::digest_bytes(splitter_.algorithm));
        hash::Stages stages;
        // The few chunks at the end of a file are digested by the CPU.
        const bool is_worth_it = digests_by_gpu_ && start - base_ >= least_feed_for_gpu;
        const Errc code = hash::hash_many(
            splitter_.algorithm, pieces_, digests_,
            {.threads = splitter_.threads,
             .processor = uses_gpu_ && is_worth_it ? hash::Processor::gpu : hash::Processor::cpu},
            &stages);
        if (stages.note != nullptr) work_.note = stages.note;
        used_gpu_ = used_gpu_ || stages.processor == hash::Processor::gpu;
        return code;
    }

    Errc hand_on() {
        if (ends_.empty()) return Errc::ok;
        const u32 size = hash::digest_bytes(splitter_.algorithm);
        chunks_.clear();
        for (size_t index = 0; index < pieces_.size(); ++index) {
            const u64 offset = base_ + static_cast<u64>(pieces_[index].data() - buffer_.data());
            chunks_.push_back({offset, pieces_[index],
                               std::span<const u8>(digests_).subspan(index * size, size),
                               is_all_zero(pieces_[index])});
        }
        if (!(*visit_)(chunks_)) return Errc::canceled;
        const u64 done = ends_.back() - base_;
        std::memmove(buffer_.data(), buffer_.data() + done, filled_ - done);
        filled_ -= done;
        base_ = ends_.back();
        return Errc::ok;
    }

    Splitter splitter_;
    u64 buffer_bytes_;  // for the CPU
    bool digests_by_gpu_;
    BlockCutter blocks_;
    chunk::Chunker chunker_;
    std::vector<std::byte> buffer_;
    chunk::GpuChunker gpu_;  // declared after buffer_, so that it is unpinned before it is freed
    bool has_gpu_ = false;
    ReadWork work_;
    u64 cpu_bytes_ = 0;  // cut and digested by the CPU, for all files
    double cpu_seconds_ = 0;
    // State of the current file.
    const Input* input_ = nullptr;
    const Visit* visit_ = nullptr;
    bool uses_gpu_ = false;  // for parts that are large enough
    bool used_gpu_ = false;  // for the last part
    bool is_undecided_ = false;
    u64 left_ = 0;   // limit of the bytes to be read
    u64 ahead_ = 0;  // to be read if the file keeps its length
    u64 filled_ = 0;
    u64 base_ = 0;  // file offset of the buffer's first byte
    std::vector<u64> ends_;
    std::vector<hash::Bytes> pieces_;
    std::vector<u8> digests_;
    std::vector<FileChunk> chunks_;
};

ChunkReader::ChunkReader() = default;
ChunkReader::~ChunkReader() = default;
ChunkReader::ChunkReader(ChunkReader&&) noexcept = default;
ChunkReader& ChunkReader::operator=(ChunkReader&&) noexcept = default;

Errc ChunkReader::open(const Splitter& splitter) {
    auto made = std::make_unique<Implementation>(splitter);
    WARREN_TRY(made->open());
    implementation_ = std::move(made);
    return Errc::ok;
}

Errc ChunkReader::read(int descriptor, const Visit& visit, u64 most_bytes) {
    const auto input = [&](std::span<std::byte> target) { return read_some(descriptor, target); };
    return implementation_->read(input, bytes_ahead(descriptor, most_bytes), visit, most_bytes);
}

Errc ChunkReader::read(const Input& input, u64 size, const Visit& visit) {
    return implementation_->read(input, size, visit, ~u64{0});
}

const ReadWork& ChunkReader::work() const {
    return implementation_->work();
}

Errc read_chunks(int descriptor, const Splitter& splitter, const ChunkReader::Visit& visit,
                 u64 most_bytes) {
    ChunkReader reader;
    WARREN_TRY(reader.open(splitter));
    return reader.read(descriptor, visit, most_bytes);
}

}  // namespace warren::dedup
