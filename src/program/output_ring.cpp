#include "program/output_ring.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ipoib/output_file.hpp"
#include "ipoib/write_all.hpp"

namespace ipoib::program {

namespace {
/// What waits is written when it has this size.
constexpr std::size_t kBatch = 64U << 10;
constexpr mode_t kPrivate = 0600;
}  // namespace

Result<OutputRing> OutputRing::open(const std::string& path, std::span<const std::uint8_t> header,
                                    const Limits& limits) {
  OutputRing out(path, header, limits);
  if (auto begun = out.begin_file(); !begun) return begun.error();
  if (auto written = out.flush(); !written) return written.error();
  return out;
}

/// As tcpdump(1) names them: with as many digits as the last one has.
std::string OutputRing::name() const {
  if (limits_.files == 1) return path_;
  const auto digits = std::to_string(limits_.files - 1).size();
  const auto number = std::to_string(number_);
  return path_ + std::string(digits - number.size(), '0') + number;
}

Result<void> OutputRing::begin_file() {
  if (is_stream()) {
    if (::isatty(STDOUT_FILENO) == 1) {
      return Error{EINVAL, "a capture is not written to a terminal: redirect the standard output"};
    }
    file_.reset(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
    if (!file_) return Error{errno, std::string("standard output: ") + std::strerror(errno)};
  } else {
    auto opened = open_output_file(name(), O_TRUNC, kPrivate);
    if (!opened) return opened.error();
    file_ = std::move(*opened);
  }
  waiting_ = header_;
  file_size_ = header_.size();
  return {};
}

Result<bool> OutputRing::add(std::span<const std::uint8_t> record) {
  const bool is_full = limits_.file_size != 0 && file_size_ > header_.size() &&
                       file_size_ + record.size() > limits_.file_size;
  if (is_full) {
    if (auto written = flush(); !written) return written.error();
    if (limits_.files == 1) return false;
    number_ = (number_ + 1) % limits_.files;
    if (auto begun = begin_file(); !begun) return begun.error();
  }
  waiting_.insert(waiting_.end(), record.begin(), record.end());
  file_size_ += record.size();
  if (waiting_.size() < kBatch) return true;
  if (auto written = flush(); !written) return written.error();
  return true;
}

Result<void> OutputRing::flush() {
  const auto written = write_all(file_.get(), std::as_bytes(std::span(waiting_)));
  waiting_.clear();
  if (written.code == 0) return {};
  return Error{written.code,
               (is_stream() ? "standard output" : name()) + ": " + std::strerror(written.code)};
}

}  // namespace ipoib::program
