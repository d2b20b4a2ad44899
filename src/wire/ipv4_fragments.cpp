// An option (RFC 791, 3.1) is a type and, except for types 0 and 1, a length and data. The highest
// bit of the type says whether fragments get a copy.
#include "wire/ipv4_fragments.hpp"

#include <algorithm>
#include <cassert>

#include "wire/transport.hpp"

namespace ipoib::wire {
namespace {

constexpr std::uint8_t kEndOfOptions = 0;
constexpr std::uint8_t kNoOperation = 1;
constexpr std::uint8_t kCopied = 0x80;
constexpr std::size_t kUnit = 8;  // of the fragment offset
constexpr std::size_t kWord = 4;
constexpr std::uint16_t kMoreFragments = 0x2000;
constexpr std::uint16_t kOffset = 0x1fff;

/// Size of the option at the front; 0 at the end of the options, or if it is malformed.
std::size_t option_size(ConstBytes options) {
  if (options.empty() || options[0] == kEndOfOptions) return 0;
  if (options[0] == kNoOperation) return 1;
  if (options.size() < 2 || options[1] < 2 || options[1] > options.size()) return 0;
  return options[1];
}

/// Copies the options with the copied flag to `to`; returns their size, padded to words.
std::size_t copy_options(ConstBytes options, std::uint8_t* to) {
  std::size_t size = 0;
  for (std::size_t own = option_size(options); own > 0; own = option_size(options)) {
    if ((options[0] & kCopied) != 0) {
      std::copy_n(options.begin(), own, to + size);
      size += own;
    }
    options = options.subspan(own);
  }
  for (; size % kWord != 0; ++size) to[size] = kEndOfOptions;
  return size;
}

}  // namespace

bool may_fragment(ConstBytes packet) {
  if (!Ipv4Header::parse(packet)) return false;
  return (load_be<std::uint16_t>(&packet[ipv4::kFragment]) & ipv4::kDontFragment) == 0;
}

Ipv4Fragmenter::Ipv4Fragmenter(ConstBytes packet, std::size_t mtu) : mtu_(mtu) {
  assert(mtu >= kMinIpv4Mtu);
  const auto header = Ipv4Header::parse(packet);
  assert(header);
  first_header_ = packet.first(header->header_size);
  payload_ = packet.subspan(header->header_size, header->total_length - header->header_size);
  constexpr std::size_t kPlain = Ipv4Header::kMinimumSize;
  std::copy_n(packet.begin(), kPlain, later_header_.begin());
  later_size_ = kPlain + copy_options(first_header_.subspan(kPlain), &later_header_[kPlain]);
  later_header_[0] = static_cast<std::uint8_t>(0x40 | later_size_ / kWord);
}

ConstBytes Ipv4Fragmenter::header() const {
  return at_ == 0 ? first_header_ : ConstBytes(later_header_).first(later_size_);
}

std::size_t Ipv4Fragmenter::next(MutableBytes to) {
  assert(!done() && to.size() >= mtu_);
  const ConstBytes copied = header();
  const std::size_t left = payload_.size() - at_;
  const std::size_t room = mtu_ - copied.size();
  const std::size_t own = left <= room ? left : room / kUnit * kUnit;
  const std::size_t size = copied.size() + own;
  std::ranges::copy(copied, to.begin());
  std::ranges::copy(payload_.subspan(at_, own),
                    to.begin() + static_cast<std::ptrdiff_t>(copied.size()));
  const auto fragment = load_be<std::uint16_t>(&first_header_[ipv4::kFragment]);
  const std::size_t offset = (fragment & kOffset) + at_ / kUnit;
  const bool is_last = own == left && (fragment & kMoreFragments) == 0;
  store_be(&to[ipv4::kTotalLength], static_cast<std::uint16_t>(size));
  store_be(&to[ipv4::kFragment],
           static_cast<std::uint16_t>((offset & kOffset) | (is_last ? 0U : kMoreFragments)));
  store_be(&to[ipv4::kChecksum], std::uint16_t{0});
  store_be(&to[ipv4::kChecksum], internet_checksum(to.first(copied.size())));
  at_ += own;
  return size;
}

}  // namespace ipoib::wire
