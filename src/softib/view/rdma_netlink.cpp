#include "softib/view/rdma_netlink.hpp"

#include <linux/netlink.h>
#include <net/if.h>
#include <rdma/rdma_netlink.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "softib/fabric/folder.hpp"
#include "softib/subnet/node_attributes.hpp"

namespace softib::view {

namespace {

constexpr std::uint8_t kChannelAdapter = 1;    ///< a node type of the kernel, as in node_type
constexpr std::uint8_t kSharedNamespaces = 1;  ///< devices belong to no network namespace
constexpr std::uint8_t kForkIsSafe = 1;        ///< as ibv_is_fork_initialized() says
/// Bytes of a message of a dump, as long as those of the kernel may be: programs receive them into
/// buffers of a page.
constexpr std::size_t kMaxDump = 4000;

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

/// What a request names: the attributes that are numbers of 32 bits.
class Named {
 public:
  explicit Named(ConstBytes attributes);
  [[nodiscard]] std::optional<std::uint32_t> find(std::uint16_t type) const {
    const auto found = numbers_.find(type);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] auto device() const { return find(RDMA_NLDEV_ATTR_DEV_INDEX); }
  [[nodiscard]] auto port() const { return find(RDMA_NLDEV_ATTR_PORT_INDEX); }

 private:
  std::map<std::uint16_t, std::uint32_t> numbers_;
};

Named::Named(ConstBytes attributes) {
  while (attributes.size() >= NLA_HDRLEN) {
    const auto header = read<nlattr>(attributes);
    if (header.nla_len < NLA_HDRLEN || header.nla_len > attributes.size()) break;
    const auto value = attributes.subspan(NLA_HDRLEN, header.nla_len - std::size_t{NLA_HDRLEN});
    if (value.size() == sizeof(std::uint32_t)) {
      numbers_[header.nla_type & NLA_TYPE_MASK] = read<std::uint32_t>(value);
    }
    attributes =
        attributes.subspan(std::min<std::size_t>(NLA_ALIGN(header.nla_len), attributes.size()));
  }
}

const char* protocol_of(const ShownHca& hca) { return hca.ports.are_ethernet() ? "roce" : "ib"; }

void write_name(MessageWriter& out, const ShownHca& hca) {
  out.attribute(RDMA_NLDEV_ATTR_DEV_INDEX, static_cast<std::uint32_t>(hca.number));
  out.text(RDMA_NLDEV_ATTR_DEV_NAME, fabric::device_name(hca.number));
}
void write_names(MessageWriter& out, const ShownHca& hca, unsigned port) {
  write_name(out, hca);
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

void write_summary(MessageWriter& out, const ShownHca& hca, ResourceSource& source) {
  write_name(out, hca);
  const auto table = out.begin(RDMA_NLDEV_ATTR_RES_SUMMARY);
  for (const auto& kind : kResourceKinds) {
    const auto entry = out.begin(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY);
    out.text(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, kind.name);
    out.attribute(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR,
                  std::uint64_t{list_resources(kind, hca, source).size()});
    out.end(entry);
  }
  out.end(table);
}

/// Answers the requests of one datagram.
class Answerer {
 public:
  Answerer(std::uint32_t port_id, std::span<const ShownHca> hcas, ResourceSource& source)
      : port_id_(port_id), hcas_(hcas), source_(source) {}

  void answer(const nlmsghdr& request, ConstBytes attributes) {
    const bool is_dump = (request.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
    const int error = execute(request, Named(attributes), is_dump);
    if (error == 0 && is_dump) {
      MessageWriter done(NLMSG_DONE, NLM_F_MULTI, request, port_id_);
      done.put(0);
      answers_.push_back(std::move(done).finish());
    } else if (error != 0 || (request.nlmsg_flags & NLM_F_ACK) != 0) {
      MessageWriter out(NLMSG_ERROR, NLM_F_CAPPED, request, port_id_);
      out.put(nlmsgerr{-error, request});
      answers_.push_back(std::move(out).finish());
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
      answers_.push_back(std::move(out).finish());
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
      case type_of(RDMA_NLDEV_CMD_RES_GET):
        return for_each_device(named, is_dump, [&](const ShownHca& hca) {
          write([&](MessageWriter& out) { write_summary(out, hca, source_); });
        });
      case type_of(RDMA_NLDEV_CMD_SYS_GET):
        write([](MessageWriter& out) {
          out.attribute(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, kSharedNamespaces);
          out.attribute(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, kForkIsSafe);
        });
        return 0;
      default:
        break;
    }
    for (const auto& kind : kResourceKinds) {
      if (request.nlmsg_type != type_of(kind.command)) continue;
      return is_dump ? list(kind, named, write) : describe(kind, named, write);
    }
    return EOPNOTSUPP;
  }

  /// Writes the resources of a device in as many messages as they need, none if there are none.
  template <class Write>
  int list(const ResourceKind& kind, const Named& named, Write write) {
    if (!named.device()) return EINVAL;
    return for_each_device(named, true, [&](const ShownHca& hca) {
      const auto all = resources_at(named.port(), kind, hca);
      for (std::size_t next = 0; next < all.size();) {
        write([&](MessageWriter& out) {
          write_name(out, hca);
          const auto table = out.begin(kind.table);
          for (; next < all.size() && out.size() + all[next].attributes.size() < kMaxDump; ++next) {
            const auto entry = out.begin(kind.entry);
            out.append(all[next].attributes);
            out.end(entry);
          }
          out.end(table);
        });
      }
    });
  }

  /// Writes the one with a number.
  template <class Write>
  int describe(const ResourceKind& kind, const Named& named, Write write) {
    const auto number = named.find(kind.number);
    if (!number) return EINVAL;
    bool is_found = false;
    const int error = for_each_device(named, false, [&](const ShownHca& hca) {
      const auto all = resources_at(named.port(), kind, hca);
      const auto found = std::ranges::find(all, *number, &Resource::number);
      if (found == all.end()) return;
      is_found = true;
      write([&](MessageWriter& out) {
        write_name(out, hca);
        out.append(found->attributes);
      });
    });
    return error == 0 && !is_found ? ENOENT : error;
  }

  /// Those of a port, if one is named; what has none is at none.
  [[nodiscard]] std::vector<Resource> resources_at(std::optional<std::uint32_t> port,
                                                   const ResourceKind& kind, const ShownHca& hca) {
    auto all = list_resources(kind, hca, source_);
    if (port) std::erase_if(all, [&](const Resource& each) { return each.port != *port; });
    return all;
  }

  template <class Visit>
  int for_each_device(const Named& named, bool is_dump, Visit visit) const {
    if (!is_dump && !named.device()) return EINVAL;
    bool is_found = false;
    for (const auto& hca : hcas_) {
      if (named.device() && *named.device() != hca.number) continue;
      visit(hca);
      is_found = true;
    }
    return is_found || !named.device() ? 0 : EINVAL;
  }

  /// A device has to be named, and for all but a dump a port.
  template <class Visit>
  int for_each_port(const Named& named, bool is_dump, Visit visit) const {
    if (!named.device() || (!is_dump && !named.port())) return EINVAL;
    bool is_found = false;
    const int error = for_each_device(named, is_dump, [&](const ShownHca& hca) {
      for (unsigned number = 1; number <= hca.ports.count(); ++number) {
        if (named.port() && *named.port() != number) continue;
        visit(hca, number);
        is_found = true;
      }
    });
    return error == 0 && !is_found ? EINVAL : error;
  }

  const std::uint32_t port_id_;
  const std::span<const ShownHca> hcas_;
  ResourceSource& source_;
  std::vector<Datagram> answers_;
};

}  // namespace

std::vector<Datagram> netlink_answers(ConstBytes sent, std::uint32_t port_id,
                                      std::span<const ShownHca> hcas, ResourceSource& source) {
  Answerer answerer(port_id, hcas, source);
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
