#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "softib/endpoint/capture.hpp"
#include "wire/packet.hpp"

namespace softib::endpoint {

using ipoib::ByteWriter;
using ipoib::Error;
using ipoib::FileDescriptor;
using ipoib::Result;

namespace {

constexpr std::uint32_t kPcapMagic = 0xa1b2c3d4;  ///< microseconds, in the octet order of the file
constexpr std::uint32_t kLinkTypeErf = 197;
constexpr std::uint32_t kSnapLength = 65535;
constexpr std::size_t kFileHeaderSize = 24;
constexpr std::size_t kRecordHeaderSize = 16;
constexpr std::size_t kErfHeaderSize = 16;
constexpr std::uint8_t kErfInfiniband = 21;
constexpr std::uint8_t kErfVaryingLength = 4;
constexpr std::size_t kIcrcSize = 4;
constexpr std::size_t kVcrcSize = 2;

template <class T>
void append_little_endian(std::vector<std::uint8_t>& to, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    to.push_back(static_cast<std::uint8_t>(value >> 8 * i));
}

void append(std::vector<std::uint8_t>& to, ConstBytes bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

bool write_header(int file) {
  std::array<std::uint8_t, kFileHeaderSize> header;
  ByteWriter writer(header);
  writer.u32(kPcapMagic);
  writer.u16(2);  // version 2.4
  writer.u16(4);
  writer.zeros(8);  // time zone, accuracy
  writer.u32(kSnapLength);
  writer.u32(kLinkTypeErf);
  return ::write(file, header.data(), header.size()) == ssize_t{kFileHeaderSize};
}

void append_headers(std::vector<std::uint8_t>& to, std::size_t size, Direction direction,
                    std::chrono::nanoseconds since_epoch) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_epoch);
  const auto nanoseconds = static_cast<std::uint64_t>((since_epoch - seconds).count());
  const auto in_file = static_cast<std::uint32_t>(kErfHeaderSize + size);
  std::array<std::uint8_t, kRecordHeaderSize> record;
  ByteWriter writer(record);
  writer.u32(static_cast<std::uint32_t>(seconds.count()));
  writer.u32(static_cast<std::uint32_t>(nanoseconds / 1000));
  writer.u32(in_file);
  writer.u32(in_file);
  append(to, record);

  constexpr std::uint64_t kNanosecondsPerSecond = 1'000'000'000;
  append_little_endian(to, static_cast<std::uint64_t>(seconds.count()) << 32 |
                               (nanoseconds << 32) / kNanosecondsPerSecond);
  std::array<std::uint8_t, kErfHeaderSize - 8> erf;
  ByteWriter rest(erf);
  rest.u8(kErfInfiniband);
  rest.u8(static_cast<std::uint8_t>(kErfVaryingLength | static_cast<std::uint8_t>(direction)));
  rest.u16(static_cast<std::uint16_t>(in_file));
  rest.zeros(2);  // lost packets
  rest.u16(static_cast<std::uint16_t>(size));
  append(to, erf);
}

/// Octets of the whole records among the first `size` of a batch.
std::size_t whole_records(ConstBytes batch, std::size_t size) {
  constexpr std::size_t kSizeOffset = 8;
  std::size_t whole = 0;
  for (;;) {
    ipoib::ByteReader reader(batch.subspan(whole));
    reader.skip(kSizeOffset);
    const std::size_t next = whole + kRecordHeaderSize + reader.u32();
    if (!reader.ok() || next > size) return whole;
    whole = next;
  }
}

}  // namespace

Result<CaptureFile> CaptureFile::open(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  struct stat status {};
  // Locked, since another process may find it empty at the same time.
  bool ready = file && ::flock(file.get(), LOCK_EX) == 0 && ::fstat(file.get(), &status) == 0;
  if (ready && status.st_size == 0) ready = write_header(file.get());
  if (!ready) {
    const int code = errno;
    return Error{code, "cannot capture to " + path + ": " + std::strerror(code)};
  }
  ::flock(file.get(), LOCK_UN);
  return CaptureFile(std::move(file), path);
}

void CaptureFile::add(ConstBytes packet, Direction direction, WallTime when) {
  if (!file_) return;
  append_headers(batch_, packet.size() + kIcrcSize + kVcrcSize, direction, when.time_since_epoch());
  const std::size_t start = batch_.size();
  append(batch_, packet);
  append_little_endian(batch_, ipoib::wire::invariant_crc(packet));
  append_little_endian(batch_, ipoib::wire::variant_crc(ConstBytes(batch_).subspan(start)));
}

void CaptureFile::flush() {
  if (!file_) return;
  // Locked, since behind half a record nobody's records could be read.
  ::flock(file_.get(), LOCK_EX);
  const auto written = ::write(file_.get(), batch_.data(), batch_.size());
  if (written != static_cast<ssize_t>(batch_.size()))
    end_with(written < 0 ? errno : ENOSPC, written);
  if (file_) ::flock(file_.get(), LOCK_UN);
  batch_.clear();
}

/// The last write took only `written` octets, or none: the file ends with its last whole record.
void CaptureFile::end_with(int code, ssize_t written) {
  struct stat status {};
  if (written > 0 && ::fstat(file_.get(), &status) == 0) {
    const auto size = static_cast<std::size_t>(written);
    const auto half = static_cast<off_t>(size - whole_records(batch_, size));
    (void)!::ftruncate(file_.get(), status.st_size - half);
  }
  std::fprintf(stderr, "softib: the capture %s ends here: %s\n", path_.c_str(),
               std::strerror(code));
  file_.reset();
}

}  // namespace softib::endpoint
