#include "softib/view/rdma_netlink.hpp"

#include <linux/netlink.h>
#include <net/if.h>
#include <rdma/rdma_netlink.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "softib/fabric/folder.hpp"
#include "softib/subnet/node_attributes.hpp"

namespace softib::view {

namespace {

constexpr std::uint8_t kChannelAdapter = 1;    ///< a node type of the kernel, as in node_type
constexpr std::uint8_t kSharedNamespaces = 1;  ///< devices belong to no network namespace
constexpr std::uint8_t kForkIsSafe = 1;        ///< as ibv_is_fork_initialized() says

/// The type of a message with a command of the group that is about devices.
constexpr std::uint16_t type_of(unsigned command) {
  return static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command));
}

template <class T>
T read(ConstBytes from) {
  T value{};
  std::memcpy(&value, from.data(), sizeof value);
  return value;
}

/// Writes one message.
class MessageWriter {
 public:
  MessageWriter(std::uint16_t type, std::uint16_t flags, const nlmsghdr& request,
                std::uint32_t port_id) {
    put(nlmsghdr{0, type, flags, request.nlmsg_seq, port_id});
  }
  /// Appends the bytes of a value.
  template <class T>
  void put(const T& value) {
    append(&value, sizeof value);
  }
  template <class T>
  void attribute(std::uint16_t type, const T& value) {
    put(nlattr{static_cast<std::uint16_t>(NLA_HDRLEN + sizeof value), type});
    put(value);
    pad();
  }
  void text(std::uint16_t type, std::string_view value) {
    put(nlattr{static_cast<std::uint16_t>(NLA_HDRLEN + value.size() + 1), type});
    append(value.data(), value.size());
    bytes_.push_back(0);
    pad();
  }
  /// Begins an attribute that holds others. Returns what end() needs.
  std::size_t begin(std::uint16_t type) {
    const auto at = bytes_.size();
    put(nlattr{0, static_cast<std::uint16_t>(type | NLA_F_NESTED)});
    return at;
  }
  void end(std::size_t begun) {
    const auto size = static_cast<std::uint16_t>(bytes_.size() - begun);
    std::memcpy(bytes_.data() + begun, &size, sizeof size);
  }
  Datagram take() && {
    const auto size = static_cast<std::uint32_t>(bytes_.size());
    std::memcpy(bytes_.data(), &size, sizeof size);
    return std::move(bytes_);
  }

 private:
  void append(const void* from, std::size_t size) {
    const auto at = bytes_.size();
    bytes_.resize(at + size);
    std::memcpy(bytes_.data() + at, from, size);
  }
  void pad() { bytes_.resize(NLMSG_ALIGN(bytes_.size())); }

  Datagram bytes_;
};

/// The device and the port that a request names.
struct Named {
  std::optional<std::uint32_t> device;
  std::optional<std::uint32_t> port;
};

Named read_names(ConstBytes attributes) {
  Named named;
  while (attributes.size() >= NLA_HDRLEN) {
    const auto header = read<nlattr>(attributes);
    if (header.nla_len < NLA_HDRLEN || header.nla_len > attributes.size()) break;
    const auto value = attributes.subspan(NLA_HDRLEN, header.nla_len - std::size_t{NLA_HDRLEN});
    if (value.size() == sizeof(std::uint32_t)) {
      const int type = header.nla_type & NLA_TYPE_MASK;
      if (type == RDMA_NLDEV_ATTR_DEV_INDEX) named.device = read<std::uint32_t>(value);
      if (type == RDMA_NLDEV_ATTR_PORT_INDEX) named.port = read<std::uint32_t>(value);
    }
    attributes =
        attributes.subspan(std::min<std::size_t>(NLA_ALIGN(header.nla_len), attributes.size()));
  }
  return named;
}

const char* protocol_of(const ShownHca& hca) { return hca.ports.are_ethernet() ? "roce" : "ib"; }

void write_names(MessageWriter& out, const ShownHca& hca, unsigned port) {
  out.attribute(RDMA_NLDEV_ATTR_DEV_INDEX, static_cast<std::uint32_t>(hca.number));
  out.text(RDMA_NLDEV_ATTR_DEV_NAME, fabric::device_name(hca.number));
  out.attribute(RDMA_NLDEV_ATTR_PORT_INDEX, std::uint32_t{port});
}

void write_device(MessageWriter& out, const ShownHca& hca) {
  const auto guid = hca.node.port.node_guid.value();
  write_names(out, hca, hca.ports.count());  // of a device, the number of its ports
  out.text(RDMA_NLDEV_ATTR_FW_VERSION, subnet::kFirmwareVersion);
  out.attribute(RDMA_NLDEV_ATTR_NODE_GUID, std::uint64_t{guid});
  out.attribute(RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, std::uint64_t{guid});
  out.attribute(RDMA_NLDEV_ATTR_DEV_NODE_TYPE, kChannelAdapter);
  out.text(RDMA_NLDEV_ATTR_DEV_PROTOCOL, protocol_of(hca));
}

void write_port(MessageWriter& out, const ShownHca& hca, unsigned number) {
  const PortAttributes& port = hca.ports[number];
  const auto info = subnet::port_info(port);
  write_names(out, hca, number);
  out.text(RDMA_NLDEV_ATTR_DEV_PROTOCOL, protocol_of(hca));
  if (!port.is_ethernet()) {
    out.attribute(RDMA_NLDEV_ATTR_CAP_FLAGS, std::uint64_t{info.capability_mask});
    out.attribute(RDMA_NLDEV_ATTR_SUBNET_PREFIX, std::uint64_t{port.gid_prefix});
    out.attribute(RDMA_NLDEV_ATTR_LID, std::uint32_t{info.lid.value()});
    out.attribute(RDMA_NLDEV_ATTR_SM_LID, std::uint32_t{info.sm_lid.value()});
    out.attribute(RDMA_NLDEV_ATTR_LMC, std::uint8_t{info.lmc});
  }
  out.attribute(RDMA_NLDEV_ATTR_PORT_STATE, static_cast<std::uint8_t>(info.port_state));
  out.attribute(RDMA_NLDEV_ATTR_PORT_PHYS_STATE, static_cast<std::uint8_t>(info.physical_state));
  std::array<char, IF_NAMESIZE> name{};
  if (port.is_ethernet() && ::if_indextoname(port.network_interface, name.data()) != nullptr) {
    out.attribute(RDMA_NLDEV_ATTR_NDEV_INDEX, std::uint32_t{port.network_interface});
    out.text(RDMA_NLDEV_ATTR_NDEV_NAME, name.data());
  }
}

void write_counters(MessageWriter& out, const ShownHca& hca, unsigned number) {
  write_names(out, hca, number);
  const auto table = out.begin(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
  const auto& values = hca.counters[number - 1];
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto entry = out.begin(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY);
    out.text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME,
             fabric::name(static_cast<fabric::PortCounter>(i)));
    out.attribute(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, values[i]);
    out.end(entry);
  }
  out.end(table);
}

/// Answers the requests of one datagram.
class Answerer {
 public:
  Answerer(std::uint32_t port_id, std::span<const ShownHca> hcas)
      : port_id_(port_id), hcas_(hcas) {}

  void answer(const nlmsghdr& request, ConstBytes attributes) {
    const bool is_dump = (request.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
    const int error = execute(request, read_names(attributes), is_dump);
    if (error == 0 && is_dump) {
      MessageWriter done(NLMSG_DONE, NLM_F_MULTI, request, port_id_);
      done.put(0);
      answers_.push_back(std::move(done).take());
    } else if (error != 0 || (request.nlmsg_flags & NLM_F_ACK) != 0) {
      MessageWriter out(NLMSG_ERROR, NLM_F_CAPPED, request, port_id_);
      out.put(nlmsgerr{-error, request});
      answers_.push_back(std::move(out).take());
    }
  }
  [[nodiscard]] std::vector<Datagram> take() && { return std::move(answers_); }

 private:
  /// Returns 0, or an errno value.
  int execute(const nlmsghdr& request, const Named& named, bool is_dump) {
    const auto flags = static_cast<std::uint16_t>(is_dump ? NLM_F_MULTI : 0);
    const auto write = [&](auto&& body) {
      MessageWriter out(request.nlmsg_type, flags, request, port_id_);
      body(out);
      answers_.push_back(std::move(out).take());
    };
    switch (request.nlmsg_type) {
      case type_of(RDMA_NLDEV_CMD_GET):
        return for_each_device(named, is_dump, [&](const ShownHca& hca) {
          write([&](MessageWriter& out) { write_device(out, hca); });
        });
      case type_of(RDMA_NLDEV_CMD_PORT_GET):
        return for_each_port(named, is_dump, [&](const ShownHca& hca, unsigned number) {
          write([&](MessageWriter& out) { write_port(out, hca, number); });
        });
      case type_of(RDMA_NLDEV_CMD_STAT_GET):
        return for_each_port(named, is_dump, [&](const ShownHca& hca, unsigned number) {
          write([&](MessageWriter& out) { write_counters(out, hca, number); });
        });
      case type_of(RDMA_NLDEV_CMD_SYS_GET):
        write([](MessageWriter& out) {
          out.attribute(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, kSharedNamespaces);
          out.attribute(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, kForkIsSafe);
        });
        return 0;
      default:
        return EOPNOTSUPP;
    }
  }

  template <class Visit>
  int for_each_device(const Named& named, bool is_dump, Visit visit) const {
    if (!is_dump && !named.device) return EINVAL;
    bool is_found = false;
    for (const auto& hca : hcas_) {
      if (named.device && *named.device != hca.number) continue;
      visit(hca);
      is_found = true;
    }
    return is_found || !named.device ? 0 : EINVAL;
  }

  /// A device has to be named, and for all but a dump a port.
  template <class Visit>
  int for_each_port(const Named& named, bool is_dump, Visit visit) const {
    if (!named.device || (!is_dump && !named.port)) return EINVAL;
    bool is_found = false;
    const int error = for_each_device(named, is_dump, [&](const ShownHca& hca) {
      for (unsigned number = 1; number <= hca.ports.count(); ++number) {
        if (named.port && *named.port != number) continue;
        visit(hca, number);
        is_found = true;
      }
    });
    return error == 0 && !is_found ? EINVAL : error;
  }

  const std::uint32_t port_id_;
  const std::span<const ShownHca> hcas_;
  std::vector<Datagram> answers_;
};

}  // namespace

std::vector<Datagram> netlink_answers(ConstBytes sent, std::uint32_t port_id,
                                      std::span<const ShownHca> hcas) {
  Answerer answerer(port_id, hcas);
  while (sent.size() >= sizeof(nlmsghdr)) {
    const auto header = read<nlmsghdr>(sent);
    if (header.nlmsg_len < sizeof header || header.nlmsg_len > sent.size()) break;
    const bool is_request = (header.nlmsg_flags & NLM_F_REQUEST) != 0;
    if (is_request && header.nlmsg_type >= NLMSG_MIN_TYPE) {
      answerer.answer(header, sent.first(header.nlmsg_len).subspan(sizeof header));
    }
    sent = sent.subspan(std::min<std::size_t>(NLMSG_ALIGN(header.nlmsg_len), sent.size()));
  }
  return std::move(answerer).take();
}

}  // namespace softib::view
