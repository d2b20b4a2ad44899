#include "softib/umad/registration.hpp"

#include <cerrno>

#include "softib/core/mad_route.hpp"
#include "softib/fabric/cm_locks.hpp"

namespace softib::umad {

using ipoib::Error;
using ipoib::Result;

namespace {

constexpr std::uint8_t kRmppVersion = 1;
/// Bounds of the kernel's tables of class versions, and of classes other than directed route.
constexpr std::uint8_t kVersions = 0x83;
constexpr std::uint8_t kClasses = 80;
constexpr std::uint32_t kMaxOui = 0xffffff;

Error invalid(const char* why) { return Error{EINVAL, why}; }

}  // namespace

ipoib::Qpn Registration::qpn() const { return ipoib::Qpn(is_smp(management_class) ? 0U : 1U); }

bool Registration::takes(const MadHeader& header, ConstBytes mad) const {
  if (management_class == 0 || header.management_class != management_class) return false;
  if (has_oui(management_class)) {
    if (oui_of(mad) != oui) return false;
  } else if (header.class_version != class_version) {
    return false;
  }
  return methods[header.method & (kMethods - 1)];
}

std::vector<std::int64_t> Registration::claims() const {
  std::vector<std::int64_t> all;
  // OUIs are not 0, so the offsets of classes with and without OUI do not overlap.
  const std::int64_t vendor = has_oui(management_class) ? std::int64_t{oui} << 24 : 0;
  const std::uint8_t version = has_oui(management_class) ? std::uint8_t{0} : class_version;
  for (std::size_t method = 0; method < kMethods; ++method) {
    if (!methods[method]) continue;
    all.push_back(vendor | fabric::agent_lock_offset(version, management_class,
                                                     static_cast<std::uint8_t>(method)));
  }
  return all;
}

Result<void> Registration::check() const {
  if (rmpp_version != 0 && rmpp_version != kRmppVersion) return invalid("unknown RMPP version");
  if (management_class == 0) return {};
  if (class_version >= kVersions) return invalid("class version out of range");
  if (management_class >= kClasses && management_class != ipoib::wire::mgmt_class::kSubnDirected) {
    return invalid("management class out of range");
  }
  if (has_oui(management_class) && (oui == 0 || oui > kMaxOui)) return invalid("no OUI");
  if (rmpp_version != 0 && !has_rmpp(management_class)) return invalid("the class has no RMPP");
  return {};
}

Registration::Methods methods_of(std::array<std::uint64_t, 2> mask) {
  return Registration::Methods(mask[1]) << 64 | Registration::Methods(mask[0]);
}

}  // namespace softib::umad
