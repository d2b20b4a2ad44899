#include "erf/capture_format.hpp"

#include "wire/packet.hpp"

namespace ipoib::erf {

namespace {

constexpr std::uint32_t kPcapMagic = 0xa1b2c3d4;  ///< microseconds; big endian
constexpr std::uint32_t kLinkTypeErf = 197;
constexpr std::uint32_t kSnapLength = 65535;
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

}  // namespace

std::array<std::uint8_t, kFileHeaderSize> file_header() {
  std::array<std::uint8_t, kFileHeaderSize> header;
  ByteWriter writer(header);
  writer.u32(kPcapMagic);
  writer.u16(2);  // version 2.4
  writer.u16(4);
  writer.zeros(8);  // time zone, accuracy
  writer.u32(kSnapLength);
  writer.u32(kLinkTypeErf);
  return header;
}

void append_record(std::vector<std::uint8_t>& to, ConstBytes packet, Direction direction,
                   WallTime when) {
  append_headers(to, packet.size() + kIcrcSize + kVcrcSize, direction, when.time_since_epoch());
  const std::size_t start = to.size();
  append(to, packet);
  append_little_endian(to, wire::invariant_crc(packet));
  append_little_endian(to, wire::variant_crc(ConstBytes(to).subspan(start)));
}

std::size_t complete_size(ConstBytes records, std::size_t size) {
  constexpr std::size_t kSizeOffset = 8;
  std::size_t complete = 0;
  for (;;) {
    ByteReader reader(records.subspan(complete));
    reader.skip(kSizeOffset);
    const std::size_t next = complete + kRecordHeaderSize + reader.u32();
    if (!reader.ok() || next > size) return complete;
    complete = next;
  }
}

}  // namespace ipoib::erf
