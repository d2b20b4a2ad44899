// Ports and agents: open, register, send, receive.
#include <poll.h>

#include <algorithm>
#include <cstring>

#include "softib/core/no_cancellation.hpp"
#include "softib/umad/abi.hpp"

using namespace softib::umad;

namespace {

using softib::ConstBytes;
using softib::Lid;
using softib::Qpn;
using softib::ServiceLevel;

/// The OUI that the kernel assumes for vendor classes registered by umad_register().
constexpr std::uint32_t kOpenFabricsOui = 0x001405;

std::array<std::uint64_t, 2> mask_of(const long* method_mask) {
  std::array<std::uint64_t, 2> mask{};
  if (method_mask != nullptr) std::memcpy(mask.data(), method_mask, sizeof mask);
  return mask;
}

/// Fails with -EPERM whatever the reason, as libibumad does; errno has the reason.
int register_agent(int port, int management_class, int class_version, std::uint8_t rmpp_version,
                   std::uint32_t oui, const long* method_mask) {
  Registration registration;
  registration.management_class = static_cast<std::uint8_t>(management_class);
  registration.class_version = static_cast<std::uint8_t>(class_version);
  registration.rmpp_version = rmpp_version;
  registration.oui = oui;
  registration.methods = methods_of(mask_of(method_mask));
  UmadHost* const umad = UmadHost::of_port(port);
  const int id = umad == nullptr ? -EINVAL : umad->add_agent(port, registration);
  if (id >= 0) return id;
  errno = -id;
  return -EPERM;
}

MadAddress address_of(const ib_user_mad& umad) {
  MadAddress to;
  to.lid = Lid(softib::from_network(umad.addr.lid));
  to.sl = ServiceLevel(umad.addr.sl & 0x0f);
  to.qpn = Qpn(softib::from_network(umad.addr.qpn));
  to.pkey_index = umad.addr.pkey_index;
  to.path_bits = umad.addr.path_bits;
  if (umad.addr.grh_present != 0) {
    to.global = ipoib::GlobalRoute{.dgid = softib::Gid(std::to_array(umad.addr.gid)),
                                   .sgid_index = umad.addr.gid_index,
                                   .flow_label = softib::from_network(umad.addr.flow_label),
                                   .hop_limit = umad.addr.hop_limit,
                                   .traffic_class = umad.addr.traffic_class};
  }
  return to;
}

void fill(ib_user_mad& umad, const UmadHost::Received& received) {
  umad = {};
  umad.agent_id = static_cast<std::uint32_t>(received.id);
  umad.status = static_cast<std::uint32_t>(received.mad.status);
  umad.length = static_cast<std::uint32_t>(sizeof umad + received.mad.mad.size());
  umad.addr.qpn = softib::to_network(received.mad.peer.qpn.value());
  umad.addr.lid = softib::to_network(received.mad.peer.lid.value());
  umad.addr.sl = received.mad.peer.sl.value();
  umad.addr.pkey_index = received.mad.peer.pkey_index;
  umad.addr.path_bits = received.mad.peer.path_bits;
  if (!received.mad.peer.global) return;
  const auto& route = *received.mad.peer.global;
  umad.addr.grh_present = 1;
  umad.addr.gid_index = route.sgid_index;
  umad.addr.flow_label = softib::to_network(route.flow_label);
  umad.addr.hop_limit = route.hop_limit;
  umad.addr.traffic_class = route.traffic_class;
  std::ranges::copy(route.dgid.bytes(), umad.addr.gid);
}

int poll_port(int port, int timeout_ms) {
  pollfd readable{port, POLLIN, 0};
  const softib::CancellationPoint here;
  const int count = ::poll(&readable, 1, timeout_ms);
  if (count == 1) return 0;
  if (count == 0) return -ETIMEDOUT;
  return -EIO;
}

/// If a message is longer than a MAD and than the buffer, copies its first MAD and keeps the
/// message in the queue.
int receive(int port, ib_user_mad* umad, int* length) {
  UmadHost* const ports = UmadHost::of_port(port);
  if (ports == nullptr || *length < 0) return -EINVAL;
  const auto room = static_cast<std::size_t>(*length);
  const auto received = ports->receive(port, room);
  if (!received) return -EWOULDBLOCK;
  if (received->id < 0) return received->id;
  const auto& mad = received->mad.mad;
  if (std::min(mad.size(), ipoib::wire::kMadSize) > room) return -EINVAL;
  fill(*umad, *received);
  std::memcpy(umad->data, mad.data(), mad.size() > room ? ipoib::wire::kMadSize : mad.size());
  *length = static_cast<int>(mad.size());
  return mad.size() > room ? -ENOSPC : received->id;
}

}  // namespace

extern "C" {

int umad_open_port(const char* ca_name, int portnum) {
  return guarded([&] {
    UmadHost* const umad = host_of(ca_name);
    return umad == nullptr ? -ENODEV : umad->open_port(portnum);
  });
}

/// Each port has both QP0 and QP1.
int umad_open_smi_port(const char* ca_name, int portnum) {
  return umad_open_port(ca_name, portnum);
}

int umad_close_port(int portid) {
  return guarded([&] {
    UmadHost* const umad = UmadHost::of_port(portid);
    return umad == nullptr ? -EINVAL : umad->close_port(portid);
  });
}

int umad_get_fd(int portid) { return portid; }

int umad_register(int portid, int mgmt_class, int mgmt_version, uint8_t rmpp_version,
                  long method_mask[16 / sizeof(long)]) {
  return guarded([&] {
    return register_agent(portid, mgmt_class, mgmt_version, rmpp_version, kOpenFabricsOui,
                          method_mask);
  });
}

int umad_register_oui(int portid, int mgmt_class, uint8_t rmpp_version, uint8_t oui[3],
                      long method_mask[16 / sizeof(long)]) {
  return guarded([&] {
    if (mgmt_class < 0 || mgmt_class > UINT8_MAX ||
        !has_oui(static_cast<std::uint8_t>(mgmt_class))) {
      return -EINVAL;
    }
    return register_agent(portid, mgmt_class, 1, rmpp_version,
                          ipoib::load_be<std::uint32_t, 3>(oui), method_mask);
  });
}

/// Returns positive errno values, unlike the other functions.
int umad_register2(int port_fd, struct umad_reg_attr* attr, uint32_t* agent_id) {
  return guarded(
      [&] {
        if (attr == nullptr || agent_id == nullptr) return EINVAL;
        if ((attr->flags & ~std::uint32_t{UMAD_USER_RMPP}) != 0) {
          attr->flags = UMAD_USER_RMPP;  // the supported flags
          return EINVAL;
        }
        Registration registration;
        registration.management_class = attr->mgmt_class;
        registration.class_version = attr->mgmt_class_version;
        registration.rmpp_version = attr->rmpp_version;
        registration.user_rmpp = (attr->flags & UMAD_USER_RMPP) != 0;
        registration.oui = attr->oui;
        registration.methods = methods_of({attr->method_mask[0], attr->method_mask[1]});
        UmadHost* const umad = UmadHost::of_port(port_fd);
        const int id = umad == nullptr ? -EINVAL : umad->add_agent(port_fd, registration);
        if (id < 0) return -id;
        *agent_id = static_cast<std::uint32_t>(id);
        return 0;
      },
      ENOMEM);
}

int umad_unregister(int portid, int agentid) {
  return guarded([&] {
    UmadHost* const umad = UmadHost::of_port(portid);
    return umad == nullptr ? -EINVAL : umad->remove_agent(portid, agentid);
  });
}

int umad_send(int portid, int agentid, void* umad, int length, int timeout_ms, int retries) {
  return guarded([&] {
    if (umad == nullptr || length < 0) return -EINVAL;
    UmadHost* const ports = UmadHost::of_port(portid);
    auto* const header = static_cast<ib_user_mad*>(umad);
    header->agent_id = static_cast<std::uint32_t>(agentid);
    header->timeout_ms = static_cast<std::uint32_t>(timeout_ms);
    header->retries = static_cast<std::uint32_t>(retries);
    if (debug_level() > 1) umad_dump(umad);
    const RetryPolicy retry{std::chrono::milliseconds(timeout_ms),
                            static_cast<unsigned>(std::max(retries, 0))};
    const ConstBytes mad(header->data, static_cast<std::size_t>(length));
    const int sent =
        ports == nullptr ? -EINVAL : ports->send(portid, agentid, address_of(*header), mad, retry);
    if (sent == 0) return 0;
    errno = -sent;
    return -EIO;
  });
}

int umad_recv(int portid, void* umad, int* length, int timeout_ms) {
  return guarded([&] {
    if (umad == nullptr || length == nullptr) {
      errno = EINVAL;
      return -EINVAL;
    }
    if (timeout_ms != 0) {
      errno = 0;
      if (const int polled = poll_port(portid, timeout_ms); polled < 0) {
        if (errno == 0) errno = -polled;
        return polled;
      }
    }
    const int result = receive(portid, static_cast<ib_user_mad*>(umad), length);
    if (result < 0) errno = -result;
    return result;
  });
}

int umad_poll(int portid, int timeout_ms) { return poll_port(portid, timeout_ms); }

}  // extern "C"
