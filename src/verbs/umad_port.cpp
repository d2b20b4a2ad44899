#include "verbs/umad_port.hpp"

#include <infiniband/umad.h>
#include <limits.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <iomanip>
#include <sstream>
#include <string_view>
#include <vector>

#include "verbs/verbs_error.hpp"
#include "wire/mad.hpp"

namespace ipoib::verbs {

namespace {

constexpr int kSaClassVersion = 2;
constexpr std::uint8_t kRmppVersion = 1;
constexpr std::uint8_t kNoRmpp = 0;

/// The error of umad_open_port(), whose return value identifies the step that failed; errno has the
/// reason, if it is set.
Error cannot_open(const std::string& device, std::uint8_t port, int result, int reason) {
  const std::string what = "cannot send MADs by " + device + " port " + std::to_string(port);
  if (result == -EIO) {
    if (reason == EACCES || reason == EPERM) {
      return verbs_error(what, reason, "run as root, or give this user /dev/infiniband/umad*");
    }
    if (reason == EMFILE || reason == ENFILE || reason == ENOMEM) return verbs_error(what, reason);
    return verbs_error(what, reason == 0 ? EIO : reason,
                       "is /dev/infiniband/umad* there, and udev running?");
  }
  if (result == -ENODEV) {
    return verbs_error(what, ENODEV,
                       "the device has gone, or has no MADs: ibstat -l lists those that have");
  }
  if (result == -EINVAL) {
    return verbs_error(what, EINVAL, "no such port, or it has no MAD device: try modprobe ib_umad");
  }
  return verbs_error(what, -result, "do the versions of libibumad and the kernel match?");
}

/// Registers an agent for the reports of the SA, or for requests to it. Returns a negative number
/// on failure. A report is one MAD (IBA 13.4.11); without RMPP, nobody can make the MAD layer
/// reassemble messages that were not requested.
int register_agent(int port, bool takes_reports) {
  constexpr std::size_t kBits = 8 * sizeof(long);
  std::array<long, 128 / kBits> methods{};
  methods[wire::method::kReport / kBits] = 1L << wire::method::kReport % kBits;
  errno = 0;
  return umad_register(port, wire::mgmt_class::kSubnAdm, kSaClassVersion,
                       takes_reports ? kNoRmpp : kRmppVersion,
                       takes_reports ? methods.data() : nullptr);
}

/// A time as umad_send takes it: in milliseconds; 0 means that no response is expected.
int milliseconds(Duration timeout) {
  if (timeout == Duration::zero()) return 0;
  const auto whole = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  return static_cast<int>(std::max<std::int64_t>(whole, 1));
}

void set_global_route(void* umad, const GlobalRoute& to) {
  ib_mad_addr_t route{};
  std::ranges::copy(to.dgid.bytes(), route.gid);
  route.flow_label = to.flow_label;
  route.hop_limit = to.hop_limit;
  route.traffic_class = to.traffic_class;
  umad_set_grh(umad, &route);
  umad_get_mad_addr(umad)->gid_index = to.sgid_index;  // which umad_set_grh leaves out
}

std::optional<GlobalRoute> global_route(const ib_mad_addr_t& from) {
  if (from.grh_present == 0) return std::nullopt;
  const auto flow_label = std::bit_cast<std::array<std::uint8_t, 4>>(from.flow_label);
  return GlobalRoute{.dgid = Gid(std::to_array(from.gid)),
                     .sgid_index = from.gid_index,
                     .flow_label = load_be<std::uint32_t>(flow_label.data()),
                     .hop_limit = from.hop_limit,
                     .traffic_class = from.traffic_class};
}

}  // namespace

Result<std::unique_ptr<UmadPort>> UmadPort::open(const std::string& device, std::uint8_t port) {
  umad_init();
  errno = 0;
  const int handle = umad_open_port(device.c_str(), port);
  if (handle < 0) return cannot_open(device, port, handle, errno);
  const int agent = register_agent(handle, false);
  if (agent < 0) {
    const int reason = errno == 0 ? -agent : errno;
    umad_close_port(handle);
    return verbs_error("cannot register for MADs of the SA on " + device, reason);
  }
  std::unique_ptr<UmadPort> opened(new UmadPort(device, port, handle, agent));
  opened->claim_reports();
  return opened;
}

/// Tries to register for reports. Only one agent of a port can register for a method; the error
/// does not distinguish this case.
bool UmadPort::claim_reports() {
  if (!takes_reports()) report_agent_ = register_agent(port_, true);
  return takes_reports();
}

UmadPort::~UmadPort() {
  if (takes_reports()) umad_unregister(port_, report_agent_);
  umad_unregister(port_, agent_);
  umad_close_port(port_);
}

Result<void> UmadPort::send(const MadDestination& to, ConstBytes mad, Duration timeout) {
  std::vector<std::uint8_t> buffer(umad_size() + mad.size());
  std::ranges::copy(mad, buffer.data() + umad_size());
  umad_set_addr(buffer.data(), to.lid.value(), static_cast<int>(to.qpn.value()), to.sl.value(),
                static_cast<int>(to.qkey.value()));
  umad_set_pkey(buffer.data(), to.pkey_index);
  if (to.global) set_global_route(buffer.data(), *to.global);
  const auto header = wire::MadHeader::parse(mad);
  const bool is_for_report = header && header->method == wire::method::kReportResp;
  const int agent = is_for_report && takes_reports() ? report_agent_ : agent_;
  const int result = umad_send(port_, agent, buffer.data(), static_cast<int>(mad.size()),
                               milliseconds(timeout), 0);
  if (result < 0) {
    return verbs_error("cannot send a MAD to LID " + std::to_string(to.lid.value()),
                       errno == 0 ? -result : errno);
  }
  return {};
}

std::optional<ReceivedMad> UmadPort::receive() {
  if (failed_ || umad_poll(port_, 0) != 0) return std::nullopt;
  auto length = static_cast<int>(wire::kMadSize);
  std::vector<std::uint8_t> buffer(umad_size() + wire::kMadSize);
  int result = umad_recv(port_, buffer.data(), &length, 0);
  if (result == -ENOSPC) {
    // A reassembled RMPP response, whose length is now known.
    length = std::max(length, static_cast<int>(wire::kMadSize));
    buffer.resize(umad_size() + static_cast<std::size_t>(length));
    result = umad_recv(port_, buffer.data(), &length, 0);
  }
  if (result < 0) {
    failed_ = result != -EWOULDBLOCK && result != -EINTR;
    return std::nullopt;
  }
  ReceivedMad mad;
  mad.timed_out = umad_status(buffer.data()) != 0;
  const ib_mad_addr_t& from = *umad_get_mad_addr(buffer.data());
  const auto lid = std::bit_cast<std::array<std::uint8_t, sizeof(from.lid)>>(from.lid);
  mad.from = {Lid(load_be<std::uint16_t>(lid.data())), ServiceLevel(from.sl), from.pkey_index};
  mad.from.global = global_route(from);
  const auto begin = buffer.begin() + static_cast<std::ptrdiff_t>(umad_size());
  const auto size =
      std::clamp<std::size_t>(static_cast<std::size_t>(length), 0, buffer.size() - umad_size());
  mad.bytes.assign(begin, begin + static_cast<std::ptrdiff_t>(size));
  return mad;
}

MadSource UmadPort::source() {
  MadSource source;
  umad_port_t port{};
  if (umad_get_port(device_.c_str(), number_, &port) != 0) return source;
  const auto prefix =
      std::bit_cast<std::array<std::uint8_t, sizeof(port.gid_prefix)>>(port.gid_prefix);
  source.gid_prefix = load_be<std::uint64_t>(prefix.data());
  for (unsigned i = 0; i < port.pkeys_size; ++i) source.pkeys.emplace_back(port.pkeys[i]);
  umad_release_port(&port);
  return source;
}

std::optional<std::string> UmadPort::identity() const {
  umad_port_t port{};
  if (umad_get_port(device_.c_str(), number_, &port) != 0) return std::nullopt;
  const auto bytes =
      std::bit_cast<std::array<std::uint8_t, sizeof(port.port_guid)>>(port.port_guid);
  const auto guid = load_be<std::uint64_t>(bytes.data());
  umad_release_port(&port);
  std::array<char, PATH_MAX> path{};
  if (guid == 0 || umad_get_issm_path(device_.c_str(), number_, path.data(), path.size()) != 0) {
    return std::nullopt;
  }
  std::ostringstream identity;
  identity << std::hex << std::setfill('0') << std::setw(16) << guid << std::dec;
  struct stat file {};
  const bool is_there = ::stat(path.data(), &file) == 0;
  if (is_there && !S_ISCHR(file.st_mode)) {
    identity << '-' << file.st_dev << '-' << file.st_ino;
  }
  // The kernel's device may be missing in a container that only has the one for MADs.
  const bool is_of_kernel = std::string_view(path.data()).starts_with("/dev/infiniband/");
  if (!is_there && !is_of_kernel) return std::nullopt;
  return identity.str();
}

int UmadPort::fd() const { return umad_get_fd(port_); }

}  // namespace ipoib::verbs
