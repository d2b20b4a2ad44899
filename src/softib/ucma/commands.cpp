#include "softib/ucma/commands.hpp"

#include <rdma/rdma_user_cm.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "softib/core/network_order.hpp"
#include "softib/rdma_cm/socket_addresses.hpp"
#include "softib/ucma/user_memory.hpp"

namespace softib::ucma {

using ipoib::ConstBytes;
using ipoib::Error;
using ipoib::MutableBytes;
using ipoib::Result;
using ipoib::wire::PathRecord;
using rdma_cm::Address;
using rdma_cm::ConnectionParameters;
using rdma_cm::DatagramParameters;
using rdma_cm::Id;
using rdma_cm::IdHandle;
using rdma_cm::PortSpace;
using rdma_cm::QpAttributes;
using rdma_cm::Service;
using rdma_cm::UserData;

namespace {

/// A command without its header.
struct Input {
  ConstBytes body;
  std::size_t out = 0;  ///< room for the response
};
using Outcome = Result<void>;

Error invalid(const char* why) { return {EINVAL, why}; }
Error no_room() {
  return {ENOSPC, "the response does not fit: the command leaves too few bytes for it"};
}
Error no_such_option() {
  return {ENOSYS, "the option is unknown: those of rdma_set_option(3) are known"};
}

/// Reads a command, of which at least `least` bytes must be there.
template <class Command>
Result<Command> read(const Input& input, std::size_t least = sizeof(Command)) {
  if (input.body.size() < least) return invalid("too short a command");
  Command command{};
  std::memcpy(&command, input.body.data(), std::min(input.body.size(), sizeof command));
  return command;
}

template <class Response>
ConstBytes bytes_of(const Response& response) {
  return {reinterpret_cast<const std::uint8_t*>(&response), sizeof response};
}

/// Writes as much of a response as its reader knows, which is `least` bytes or more.
Outcome respond(const Input& input, std::uint64_t address, ConstBytes response, std::size_t least) {
  if (input.out < least) return no_room();
  return copy_to_user(address, response.first(std::min(input.out, response.size())));
}
template <class Response>
Outcome respond(const Input& input, std::uint64_t address, const Response& response) {
  return respond(input, address, bytes_of(response), sizeof response);
}

/// The address vector of a path from a port, in the byte order of the machine.
ib_uverbs_ah_attr address_vector(const PathRecord& path, const PortAttributes& port) {
  ib_uverbs_ah_attr vector{};
  vector.dlid = path.dlid.value();
  vector.sl = path.sl.value();
  vector.src_path_bits = ipoib::path_bits(path.slid, port.lmc);
  vector.static_rate = path.rate;
  vector.port_num = port.number;
  const bool is_global =
      port.grh_required || port.is_ethernet() || path.hop_limit > 1 || path.dgid.is_multicast();
  vector.is_global = is_global ? 1 : 0;
  if (vector.is_global != 0) {
    std::ranges::copy(path.dgid.bytes(), std::begin(vector.grh.dgid));
    vector.grh.sgid_index = static_cast<std::uint8_t>(port.gid_index(path.sgid).value_or(0));
    vector.grh.flow_label = path.flow_label;
    vector.grh.hop_limit = path.hop_limit;
    vector.grh.traffic_class = path.traffic_class;
  }
  return vector;
}

ConnectionParameters read_parameters(const rdma_ucm_conn_param& from) {
  ConnectionParameters to;
  to.qpn = Qpn(from.qp_num);
  to.qkey = QKey(from.qkey);
  to.srq = from.srq != 0;
  to.responder_resources = from.responder_resources;
  to.initiator_depth = from.initiator_depth;
  to.flow_control = from.flow_control != 0;
  to.retry_count = from.retry_count;
  to.rnr_retry_count = from.rnr_retry_count;
  to.data = UserData::of(ConstBytes(from.private_data).first(from.private_data_len));
  return to;
}

template <class Parameters>
void write_data(const UserData& data, Parameters& to) {
  std::ranges::copy(data.data(), std::begin(to.private_data));
  to.private_data_len = data.size;
}

/// The port of the ID; nullopt while it is bound to none.
std::optional<PortAttributes> port_of(const CommandContext& context, const Id& id) {
  if (!id.local) return std::nullopt;
  return context.node.port(*id.local);
}

// --- IDs and events ------------------------------------------------------------------------------

Outcome create_id(const CommandContext& context, const Input& input) {
  const auto command = read<rdma_ucm_create_id>(input);
  if (!command) return command.error();
  if (input.out < sizeof(rdma_ucm_create_id_resp)) return no_room();
  const auto space = static_cast<PortSpace>(command->ps);
  if (space != PortSpace::tcp && space != PortSpace::udp && space != PortSpace::ipoib &&
      space != PortSpace::ib) {
    return invalid("no such port space");
  }
  // Of PS_IB: IB_QPT_UC, IB_QPT_UD, and XRC's initiator and target.
  constexpr std::array kServices{std::pair{2, Service::reliable}, std::pair{3, Service::unreliable},
                                 std::pair{4, Service::datagram},
                                 std::pair{9, Service::extended_initiator},
                                 std::pair{10, Service::extended_target}};
  const auto* const service = std::ranges::find_if(
      kServices, [&](const auto& one) { return one.first == command->qp_type; });
  if (space == PortSpace::ib && service == kServices.end()) return invalid("no such queue pair");
  const auto id =
      context.manager.create(context.channel, command->uid, space,
                             service == kServices.end() ? Service::reliable : service->second);
  if (!id) return id.error();
  auto done = respond(input, command->response, rdma_ucm_create_id_resp{id->value()});
  if (!done) (void)context.manager.destroy(context.channel, *id, context.now);
  return done;
}

Outcome destroy_id(const CommandContext& context, const Input& input) {
  const auto command = read<rdma_ucm_destroy_id>(input);
  if (!command) return command.error();
  if (input.out < sizeof(rdma_ucm_destroy_id_resp)) return no_room();
  const auto reported =
      context.manager.destroy(context.channel, IdHandle(command->id), context.now);
  if (!reported) return reported.error();
  return respond(input, command->response, rdma_ucm_destroy_id_resp{*reported});
}

Outcome migrate_id(const CommandContext& context, const Input& input) {
  const auto command = read<rdma_ucm_migrate_id>(input);
  if (!command) return command.error();
  const auto from = context.channel_of(static_cast<int>(command->fd));
  if (!from) return Error{EINVAL, "the descriptor is not that of an event channel of this process"};
  const auto reported = context.manager.migrate(context.channel, *from, IdHandle(command->id));
  if (!reported) return reported.error();
  return respond(input, command->response, rdma_ucm_migrate_resp{*reported});
}

Outcome get_event(const CommandContext& context, const Input& input) {
  const auto command = read<rdma_ucm_get_event>(input);
  if (!command) return command.error();
  constexpr std::size_t kLeast = offsetof(rdma_ucm_event_resp, reserved);
  if (input.out < kLeast) return no_room();
  const auto event = context.manager.take_event(context.channel);
  if (!event) return event.error();
  rdma_ucm_event_resp response{};
  response.uid = event->uid;
  response.id = event->join == rdma_cm::JoinHandle() ? event->id.value() : event->join.value();
  response.event = static_cast<std::uint32_t>(event->type);
  response.status = static_cast<std::uint32_t>(event->status);
  if (const auto* const datagram = std::get_if<DatagramParameters>(&event->parameters)) {
    auto& to = response.param.ud;
    to.qp_num = datagram->qpn.value();
    to.qkey = datagram->qkey.value();
    write_data(datagram->data, to);
    const auto id = context.manager.find(context.channel, event->id);
    const auto port = id ? port_of(context, **id) : std::nullopt;
    if (port) to.ah_attr = address_vector(datagram->path, *port);
  } else {
    const auto& from = std::get<ConnectionParameters>(event->parameters);
    auto& to = response.param.conn;
    to.qp_num = from.qpn.value();
    to.qkey = from.qkey.value();
    to.srq = from.srq ? 1 : 0;
    to.responder_resources = from.responder_resources;
    to.initiator_depth = from.initiator_depth;
    to.flow_control = from.flow_control ? 1 : 0;
    to.retry_count = from.retry_count;
    to.rnr_retry_count = from.rnr_retry_count;
    write_data(from.data, to);
  }
  return respond(input, command->response, bytes_of(response), kLeast);
}

// --- Addresses -----------------------------------------------------------------------------------

/// An address of `size` bytes, which must be that of its family.
std::optional<Address> sized_address(const __kernel_sockaddr_storage& from, std::size_t size) {
  const auto bytes = bytes_of(from);
  sa_family_t family = AF_UNSPEC;
  std::memcpy(&family, bytes.data(), sizeof family);
  if (size == 0 || size != rdma_cm::address_size(family)) return std::nullopt;
  return rdma_cm::read_address(bytes);
}

Outcome bind(const CommandContext& context, const Input& input) {
  const auto command = read<rdma_ucm_bind>(input);
  if (!command) return command.error();
  const auto address = sized_address(command->addr, command->addr_size);
  if (command->reserved != 0 || !address) return invalid("not an address");
  return context.manager.bind(context.channel, IdHandle(command->id), *address);
}

Outcome bind_ip(const CommandContext& context, const Input& input) {
  const auto command = read<rdma_ucm_bind_ip>(input);
  if (!command) return command.error();
  const auto address = rdma_cm::read_address(bytes_of(command->addr));
  if (!address || !std::holds_alternative<rdma_cm::IpEndpoint>(*address)) {
    return invalid("not an IP address");
  }
  return context.manager.bind(context.channel, IdHandle(command->id), *address);
}

Outcome resolve(const CommandContext& context, std::uint32_t id,
                const std::optional<Address>& source, const std::optional<Address>& destination,
                std::uint32_t milliseconds) {
  if (!source || !destination) return invalid("not an address");
  return context.manager.resolve_address(context.channel, IdHandle(id), *source, *destination,
                                         std::chrono::milliseconds(milliseconds), context.now);
}

Outcome resolve_addr(const CommandContext& context, const Input& input) {
  const auto command = read<rdma_ucm_resolve_addr>(input);
  if (!command) return command.error();
  if (command->reserved != 0) return invalid("reserved field");
  const auto source = command->src_size == 0 ? std::optional<Address>(Address())
                                             : sized_address(command->src_addr, command->src_size);
  return resolve(context, command->id, source, sized_address(command->dst_addr, command->dst_size),
                 command->timeout_ms);
}

Outcome resolve_ip(const CommandContext& context, const Input& input) {
  const auto command = read<rdma_ucm_resolve_ip>(input);
  if (!command) return command.error();
  return resolve(context, command->id, rdma_cm::read_address(bytes_of(command->src_addr)),
                 rdma_cm::read_address(bytes_of(command->dst_addr)), command->timeout_ms);
}

Outcome resolve_route(const CommandContext& context, const Input& input) {
  const auto command = read<rdma_ucm_resolve_route>(input);
  if (!command) return command.error();
  return context.manager.resolve_route(context.channel, IdHandle(command->id),
                                       std::chrono::milliseconds(command->timeout_ms), context.now);
}

// --- Queries -------------------------------------------------------------------------------------

/// One end as sockaddr_ib, whatever the kind of its address.
Address ib_address(const Id& id, const Address& address, const Gid& gid) {
  if (std::holds_alternative<rdma_cm::IbEndpoint>(address)) return address;
  return rdma_cm::IbEndpoint{.pkey = id.pkey,
                             .gid = gid,
                             .service_id = service_id_of(id.bound_space, address).value(),
                             .service_mask = ~std::uint64_t{0}};
}

struct Addresses {
  Address source;
  Address destination;
};

Outcome respond_addresses(const CommandContext& context, const Input& input, const Id& id,
                          std::uint64_t address, const Addresses& addresses) {
  // The response ends before the index of the device, so librdmacm finds it by its GUID.
  constexpr std::size_t kSize = offsetof(rdma_ucm_query_addr_resp, ibdev_index);
  rdma_ucm_query_addr_resp response{};
  sockaddr_storage storage;
  response.src_size = static_cast<std::uint16_t>(rdma_cm::write_address(addresses.source, storage));
  std::memcpy(&response.src_addr, &storage, sizeof storage);
  response.dst_size =
      static_cast<std::uint16_t>(rdma_cm::write_address(addresses.destination, storage));
  std::memcpy(&response.dst_addr, &storage, sizeof storage);
  if (const auto port = port_of(context, id)) {
    response.node_guid = to_network(std::uint64_t{port->node_guid.value()});
    response.port_num = port->number;
    response.pkey = to_network(id.pkey.value());
  }
  return respond(input, address, bytes_of(response).first(kSize), kSize);
}

constexpr std::uint32_t kPathFlags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;

/// Responds with the number of paths, and the path if there is room for it.
Outcome respond_path(const Input& input, const Id& id, std::uint64_t address) {
  constexpr std::size_t kHead = sizeof(rdma_ucm_query_path_resp);
  std::array<std::uint8_t, kHead + sizeof(ib_path_rec_data)> response{};
  const std::uint32_t count = id.path ? 1 : 0;
  std::memcpy(&response[offsetof(rdma_ucm_query_path_resp, num_paths)], &count, sizeof count);
  if (id.path) {
    ib_path_rec_data path{};
    path.flags = kPathFlags;
    std::memcpy(&response[kHead], &path, sizeof path);
    id.path->emit(MutableBytes(response).subspan(kHead + offsetof(ib_path_rec_data, path_rec)));
  }
  const bool has_room = id.path && input.out >= response.size();
  return respond(input, address, ConstBytes(response).first(has_room ? response.size() : kHead),
                 kHead);
}

Outcome query(const CommandContext& context, const Input& input) {
  const auto command = read<rdma_ucm_query>(input);
  if (!command) return command.error();
  const auto found = context.manager.find(context.channel, IdHandle(command->id));
  if (!found) return found.error();
  const Id& id = **found;
  switch (command->option) {
    case RDMA_USER_CM_QUERY_ADDR:
      return respond_addresses(context, input, id, command->response, {id.source, id.destination});
    case RDMA_USER_CM_QUERY_PATH:
      return respond_path(input, id, command->response);
    case RDMA_USER_CM_QUERY_GID: {
      const auto port = port_of(context, id);
      const Gid sgid = port ? rdma_cm::source_gid(id, *port) : Gid();
      return respond_addresses(
          context, input, id, command->response,
          {ib_address(id, id.source, sgid), ib_address(id, id.destination, id.dgid)});
    }
    default:
      return Error{ENOSYS, "the query is unknown: addresses, path and GIDs are known"};
  }
}

ib_user_path_rec user_path(const PathRecord& path) {
  ib_user_path_rec to{};
  std::ranges::copy(path.dgid.bytes(), std::begin(to.dgid));
  std::ranges::copy(path.sgid.bytes(), std::begin(to.sgid));
  to.dlid = to_network(path.dlid.value());
  to.slid = to_network(path.slid.value());
  to.raw_traffic = path.raw_traffic ? 1 : 0;
  to.flow_label = to_network(path.flow_label);
  to.reversible = path.reversible ? 1 : 0;
  to.mtu = path.mtu;
  to.pkey = to_network(path.pkey.value());
  to.hop_limit = path.hop_limit;
  to.traffic_class = path.traffic_class;
  to.numb_path = path.numb_path;
  to.sl = path.sl.value();
  to.mtu_selector = static_cast<std::uint8_t>(path.mtu_selector);
  to.rate_selector = static_cast<std::uint8_t>(path.rate_selector);
  to.rate = path.rate;
  to.packet_life_time_selector = static_cast<std::uint8_t>(path.lifetime_selector);
  to.packet_life_time = path.lifetime;
  to.preference = path.preference;
  return to;
}

/// The older form of query(), with addresses and path in one.
Outcome query_route(const CommandContext& context, const Input& input) {
  const auto command = read<rdma_ucm_query>(input, offsetof(rdma_ucm_query, option));
  if (!command) return command.error();
  const auto found = context.manager.find(context.channel, IdHandle(command->id));
  if (!found) return found.error();
  const Id& id = **found;
  constexpr std::size_t kSize = offsetof(rdma_ucm_query_route_resp, ibdev_index);
  rdma_ucm_query_route_resp response{};
  sockaddr_storage storage;
  rdma_cm::write_address(id.source, storage);
  std::memcpy(&response.src_addr, &storage, sizeof response.src_addr);
  rdma_cm::write_address(id.destination, storage);
  std::memcpy(&response.dst_addr, &storage, sizeof response.dst_addr);
  if (const auto port = port_of(context, id)) {
    response.node_guid = to_network(std::uint64_t{port->node_guid.value()});
    response.port_num = port->number;
    PathRecord known;
    known.sgid = rdma_cm::source_gid(id, *port);
    known.dgid = id.dgid;
    known.pkey = id.pkey;
    response.ib_route[0] = user_path(id.path.value_or(known));
    response.num_paths = id.path ? 1 : 0;
  }
  return respond(input, command->response, bytes_of(response).first(kSize), kSize);
}

Outcome init_qp_attr(const CommandContext& context, const Input& input) {
  const auto command = read<rdma_ucm_init_qp_attr>(input);
  if (!command) return command.error();
  if (input.out < sizeof(ib_uverbs_qp_attr)) return no_room();
  const IdHandle handle(command->id);
  const auto attributes = context.manager.init_qp(context.channel, handle, command->qp_state);
  if (!attributes) return attributes.error();
  const Id& id = **context.manager.find(context.channel, handle);
  ib_uverbs_qp_attr response{};
  response.qp_attr_mask = attributes->mask;
  response.qp_state = attributes->state;
  response.qp_access_flags = attributes->access;
  response.pkey_index = attributes->pkey_index;
  response.port_num = attributes->port;
  response.qkey = attributes->qkey.value();
  response.path_mtu = attributes->path.mtu;
  response.dest_qp_num = attributes->destination.value();
  response.rq_psn = attributes->rq_psn.value();
  response.sq_psn = attributes->sq_psn.value();
  response.max_rd_atomic = attributes->max_reads;
  response.max_dest_rd_atomic = attributes->max_destination_reads;
  response.timeout = attributes->timeout;
  response.retry_cnt = attributes->retry_count;
  response.rnr_retry = attributes->rnr_retry;
  const auto port = port_of(context, id);
  if ((attributes->mask & QpAttributes::kAddressVector) != 0 && port) {
    response.ah_attr = address_vector(attributes->path, *port);
  }
  return respond(input, command->response, response);
}

// --- Connections ---------------------------------------------------------------------------------

Outcome connect(const CommandContext& context, const Input& input) {
  const auto command = read<rdma_ucm_connect>(input, offsetof(rdma_ucm_connect, ece));
  if (!command) return command.error();
  if (command->conn_param.valid == 0) return invalid("no parameters");
  return context.manager.connect(context.channel, IdHandle(command->id),
                                 read_parameters(command->conn_param), context.now);
}

Outcome listen(const CommandContext& context, const Input& input) {
  const auto command = read<rdma_ucm_listen>(input);
  if (!command) return command.error();
  // A negative number, which rdma_listen() accepts, is a large one here.
  return context.manager.listen(context.channel, IdHandle(command->id), command->backlog);
}

/// Accepts a request; without parameters, confirms the peer's acceptance.
Outcome accept(const CommandContext& context, const Input& input) {
  const auto command = read<rdma_ucm_accept>(input, offsetof(rdma_ucm_accept, ece));
  if (!command) return command.error();
  const IdHandle id(command->id);
  if (command->conn_param.valid == 0) {
    return context.manager.confirm(context.channel, id, context.now);
  }
  return context.manager.accept(context.channel, id, command->uid,
                                read_parameters(command->conn_param), context.now);
}

Outcome reject(const CommandContext& context, const Input& input) {
  const auto command = read<rdma_ucm_reject>(input);
  if (!command) return command.error();
  using ipoib::wire::CmRejReason;
  const auto reason =
      command->reason == 0 ? CmRejReason::consumer : static_cast<CmRejReason>(command->reason);
  const auto data = ConstBytes(command->private_data).first(command->private_data_len);
  return context.manager.reject(context.channel, IdHandle(command->id), UserData::of(data), reason,
                                context.now);
}

Outcome disconnect(const CommandContext& context, const Input& input) {
  const auto command = read<rdma_ucm_disconnect>(input);
  if (!command) return command.error();
  return context.manager.disconnect(context.channel, IdHandle(command->id), context.now);
}

Outcome notify(const CommandContext& context, const Input& input) {
  const auto command = read<rdma_ucm_notify>(input);
  if (!command) return command.error();
  constexpr std::uint32_t kCommunicationEstablished = 4;  // IBV_EVENT_COMM_EST
  if (command->event != kCommunicationEstablished) return invalid("not an event of connections");
  return context.manager.communication_established(context.channel, IdHandle(command->id),
                                                   context.now);
}

// --- Multicast -----------------------------------------------------------------------------------

Outcome join(const CommandContext& context, const Input& input, std::uint32_t id, std::uint64_t uid,
             std::uint64_t response, const std::optional<Address>& group, bool is_send_only) {
  if (input.out < sizeof(rdma_ucm_create_id_resp)) return no_room();
  if (!group) return invalid("not an address");
  const auto joined =
      context.manager.join(context.channel, IdHandle(id), uid, *group, is_send_only, context.now);
  if (!joined) return joined.error();
  auto done = respond(input, response, rdma_ucm_create_id_resp{joined->value()});
  if (!done) (void)context.manager.leave(context.channel, *joined, context.now);
  return done;
}

Outcome join_mcast(const CommandContext& context, const Input& input) {
  const auto command = read<rdma_ucm_join_mcast>(input);
  if (!command) return command.error();
  if (command->join_flags > RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER) return invalid("no such flag");
  return join(context, input, command->id, command->uid, command->response,
              sized_address(command->addr, command->addr_size),
              command->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER);
}

Outcome join_ip_mcast(const CommandContext& context, const Input& input) {
  const auto command = read<rdma_ucm_join_ip_mcast>(input);
  if (!command) return command.error();
  return join(context, input, command->id, command->uid, command->response,
              rdma_cm::read_address(bytes_of(command->addr)), false);
}

Outcome leave_mcast(const CommandContext& context, const Input& input) {
  const auto command = read<rdma_ucm_destroy_id>(input);
  if (!command) return command.error();
  if (input.out < sizeof(rdma_ucm_destroy_id_resp)) return no_room();
  const auto reported =
      context.manager.leave(context.channel, rdma_cm::JoinHandle(command->id), context.now);
  if (!reported) return reported.error();
  return respond(input, command->response, rdma_ucm_destroy_id_resp{*reported});
}

// --- Options -------------------------------------------------------------------------------------

template <class Value>
Result<Value> option_value(const rdma_ucm_set_option& command) {
  if (command.optlen != sizeof(Value)) return invalid("not the size of the option");
  Value value{};
  const auto copied =
      copy_from_user({reinterpret_cast<std::uint8_t*>(&value), sizeof value}, command.optval);
  if (!copied) return copied.error();
  return value;
}

Outcome set_id_option(const CommandContext& context, const rdma_ucm_set_option& command) {
  const IdHandle id(command.id);
  auto& manager = context.manager;
  if (command.optname == RDMA_OPTION_ID_TOS || command.optname == RDMA_OPTION_ID_ACK_TIMEOUT) {
    const auto value = option_value<std::uint8_t>(command);
    if (!value) return value.error();
    return command.optname == RDMA_OPTION_ID_TOS
               ? manager.set_tos(context.channel, id, *value)
               : manager.set_ack_timeout(context.channel, id, *value);
  }
  if (command.optname == RDMA_OPTION_ID_REUSEADDR || command.optname == RDMA_OPTION_ID_AFONLY) {
    const auto value = option_value<int>(command);
    if (!value) return value.error();
    return command.optname == RDMA_OPTION_ID_REUSEADDR
               ? manager.set_reuses_address(context.channel, id, *value != 0)
               : manager.set_family_only(context.channel, id, *value != 0);
  }
  return no_such_option();
}

/// The first path in an array that is one for both directions.
Outcome set_path_option(const CommandContext& context, const rdma_ucm_set_option& command) {
  constexpr std::size_t kMostPaths = 6;
  if (command.optlen == 0 || command.optlen % sizeof(ib_path_rec_data) != 0) {
    return invalid("not an array of paths");
  }
  const auto count = std::min(command.optlen / sizeof(ib_path_rec_data), kMostPaths);
  for (std::size_t i = 0; i < count; ++i) {
    ib_path_rec_data data{};
    auto copied = copy_from_user({reinterpret_cast<std::uint8_t*>(&data), sizeof data},
                                 command.optval + i * sizeof data);
    if (!copied) return copied;
    if (data.flags != kPathFlags) continue;
    const auto path = PathRecord::parse(bytes_of(data.path_rec));
    return context.manager.set_path(context.channel, IdHandle(command.id), *path);
  }
  return invalid("no path for both directions");
}

Outcome set_option(const CommandContext& context, const Input& input) {
  const auto command = read<rdma_ucm_set_option>(input);
  if (!command) return command.error();
  if (command->level == RDMA_OPTION_ID) return set_id_option(context, *command);
  if (command->level == RDMA_OPTION_IB && command->optname == RDMA_OPTION_IB_PATH) {
    return set_path_option(context, *command);
  }
  return no_such_option();
}

Outcome not_supported(const CommandContext& /*context*/, const Input& /*input*/) {
  return Error{ENOSYS, "not supported"};
}

struct Command {
  Outcome (*execute)(const CommandContext&, const Input&);
  const char* function;  ///< of librdmacm
};
/// In the order of RDMA_USER_CM_CMD_*.
constexpr std::array<Command, RDMA_USER_CM_CMD_JOIN_MCAST + 1> kCommands{
    {{create_id, "rdma_create_id"},
     {destroy_id, "rdma_destroy_id"},
     {bind_ip, "rdma_bind_addr"},
     {resolve_ip, "rdma_resolve_addr"},
     {resolve_route, "rdma_resolve_route"},
     {query_route, "query_route"},
     {connect, "rdma_connect"},
     {listen, "rdma_listen"},
     {accept, "rdma_accept"},
     {reject, "rdma_reject"},
     {disconnect, "rdma_disconnect"},
     {init_qp_attr, "rdma_init_qp_attr"},
     {get_event, "rdma_get_cm_event"},
     {not_supported, "get_option"},
     {set_option, "rdma_set_option"},
     {notify, "rdma_notify"},
     {join_ip_mcast, "rdma_join_multicast"},
     {leave_mcast, "rdma_leave_multicast"},
     {migrate_id, "rdma_migrate_id"},
     {query, "query"},
     {bind, "rdma_bind_addr"},
     {resolve_addr, "rdma_resolve_addr"},
     {join_mcast, "rdma_join_multicast"}}};

std::optional<rdma_ucm_cmd_hdr> read_header(ConstBytes command) {
  rdma_ucm_cmd_hdr header{};
  if (command.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, command.data(), sizeof header);
  return header;
}

}  // namespace

bool is_get_event(ConstBytes command) {
  const auto header = read_header(command);
  return header && header->cmd == RDMA_USER_CM_CMD_GET_EVENT;
}

const char* function_of(ConstBytes command) {
  const auto header = read_header(command);
  return header && header->cmd < kCommands.size() ? kCommands[header->cmd].function : "write";
}

Result<void> execute(const CommandContext& context, ConstBytes command) {
  const auto header = read_header(command);
  if (!header || header->cmd >= kCommands.size()) {
    return invalid("what is written to the device is no command of librdmacm");
  }
  const ConstBytes body = command.subspan(sizeof *header);
  if (header->in > body.size()) return invalid("too short a command");
  return kCommands[header->cmd].execute(context, {body.first(header->in), header->out});
}

}  // namespace softib::ucma
