#include "softib/umad/mad_class.hpp"

namespace softib::umad {

namespace {
constexpr std::uint8_t kDeviceManagement = 0x06;
constexpr std::uint8_t kDeviceAdministration = 0x10;
constexpr std::uint8_t kBootInformation = 0x12;
constexpr std::uint8_t kTrapRepress = 0x07;
constexpr std::size_t kDeviceHeaderSize = 64;
constexpr std::size_t kVendorHeaderSize = 40;
constexpr std::size_t kOuiOffset = 37;

bool is_device_class(std::uint8_t management_class) {
  return management_class == kDeviceManagement || management_class == kDeviceAdministration ||
         management_class == kBootInformation;
}
}  // namespace

bool has_rmpp(std::uint8_t management_class) {
  return management_class == ipoib::wire::mgmt_class::kSubnAdm ||
         is_device_class(management_class) || has_oui(management_class);
}

std::size_t header_size(std::uint8_t management_class) {
  if (management_class == ipoib::wire::mgmt_class::kSubnAdm) return ipoib::wire::kSaHeaderSize;
  if (is_device_class(management_class)) return kDeviceHeaderSize;
  if (has_oui(management_class)) return kVendorHeaderSize;
  return ipoib::wire::kMadHeaderSize;
}

std::optional<std::uint32_t> oui_of(ConstBytes mad) {
  if (mad.size() < kVendorHeaderSize) return std::nullopt;
  return ipoib::load_be<std::uint32_t, 3>(mad.data() + kOuiOffset);
}

bool is_response(const MadHeader& header) {
  return header.is_response() || header.method == kTrapRepress;
}

}  // namespace softib::umad
