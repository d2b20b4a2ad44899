// sa_responder: the subnet administration (SA) of the soft InfiniBand ports of one machine.
//
// Serves ClassPortInfo, MCMemberRecord, PathRecord and InformInfo on QP1 of a port, and sends
// reports of created and deleted groups (traps 66 and 67) to subscribers. Logs each request and its
// status to standard output; the tests read this log. It never removes members whose port is down.
#include <infiniband/umad.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "ipoib/bytes.hpp"
#include "sa_database.hpp"
#include "wire/class_port_info.hpp"
#include "wire/mad.hpp"

namespace ipoib::kernel_peer {

namespace {

namespace po = boost::program_options;
using wire::McMemberRecord;
using wire::PathRecord;
using wire::SaHeader;
using wire::SaStatus;
namespace attribute = wire::attribute;
namespace method = wire::method;

constexpr int kSaClassVersion = 2;
constexpr int kRmppVersion = 1;
constexpr int kTimeout = 500;  // ms, for reports and tables
constexpr int kRetries = 3;
constexpr std::uint32_t kSendOnlyFullMember = 1U << 12;  // CapabilityMask2
constexpr std::uint8_t kResponseTime = 16;               // 4.096 us * 2^16

/// A MAD with the address header of libibumad before it.
class UmadBuffer {
 public:
  explicit UmadBuffer(std::size_t size = wire::kMadSize) : bytes_(umad_size() + size) {}

  [[nodiscard]] void* umad() { return bytes_.data(); }
  [[nodiscard]] ib_mad_addr_t& address() { return *umad_get_mad_addr(bytes_.data()); }
  [[nodiscard]] MutableBytes mad() { return MutableBytes(bytes_).subspan(umad_size()); }
  [[nodiscard]] MutableBytes data() { return mad().subspan(wire::kSaHeaderSize); }
  [[nodiscard]] Subscriber sender() {
    return {Lid(from_network(address().lid)), Qpn(from_network(address().qpn)),
            ServiceLevel(address().sl)};
  }
  void set_destination(const Subscriber& to) {
    umad_set_addr(umad(), to.lid.value(), static_cast<int>(to.qpn.value()), to.sl.value(),
                  static_cast<int>(wire::kGsiQKey.value()));
  }

 private:
  std::vector<std::uint8_t> bytes_;
};

class Responder {
 public:
  Responder(const std::string& device, const SubnetSettings& settings);
  /// Serves requests until receiving fails.
  void run();

 private:
  void handle(UmadBuffer& request, const SaHeader& header);
  SaStatus respond_to_member(UmadBuffer& request, SaHeader& header);
  SaStatus respond_to_path(UmadBuffer& request, SaHeader& header);
  SaStatus respond(UmadBuffer& request, SaHeader& header);
  template <class Record>
  void send_table(UmadBuffer& request, SaHeader header, const std::vector<Record>& records);
  void report(const SaDatabase::GroupEvent& event);
  void send(UmadBuffer& buffer, int timeout, int retries) {
    if (umad_send(port_, agent_, buffer.umad(), static_cast<int>(buffer.mad().size()), timeout,
                  retries) < 0) {
      std::perror("SA: umad_send");
    }
  }

  SubnetPort own_;
  SaDatabase database_;
  int port_ = -1;   // of umad_open_port
  int agent_ = -1;  // of umad_register
  std::uint64_t last_report_ = 0;
};

SubnetPort port_of(const std::string& device) {
  for (SubnetPort& port : local_ports()) {
    if (port.device == device) return port;
  }
  throw std::runtime_error("there is no " + device);
}

Responder::Responder(const std::string& device, const SubnetSettings& settings)
    : own_(port_of(device)),
      database_(settings, own_.gid),
      port_(umad_open_port(device.c_str(), 1)) {
  long methods[128 / (8 * sizeof(long))] = {1L << method::kGet | 1L << method::kSet |
                                            1L << method::kGetTable | 1L << method::kDelete};
  if (port_ >= 0) {
    agent_ =
        umad_register(port_, wire::mgmt_class::kSubnAdm, kSaClassVersion, kRmppVersion, methods);
  }
  if (agent_ < 0) throw std::runtime_error("cannot serve on " + device);
  std::printf("SA ready on %s lid %d\n", device.c_str(), own_.lid.value());
}

void Responder::run() {
  for (;;) {
    UmadBuffer request;
    int length = wire::kMadSize;
    if (umad_recv(port_, request.umad(), &length, -1) < 0) throw std::runtime_error("umad_recv");
    const auto header = SaHeader::parse(request.mad());
    // A report without a response comes back with a status.
    if (umad_status(request.umad()) != 0 || !header || header->mad.is_response()) continue;
    handle(request, *header);
  }
}

void Responder::handle(UmadBuffer& request, const SaHeader& header) {
  std::string subject;
  unsigned join_state = 0;
  if (header.mad.attribute_id == attribute::kMcMemberRecord) {
    const McMemberRecord record = McMemberRecord::parse(request.data()).value();
    subject = record.mgid.to_string();
    join_state = record.join_state;
  } else if (header.mad.attribute_id == attribute::kPathRecord) {
    subject = PathRecord::parse(request.data()).value().dgid.to_string();
  }
  SaHeader response = header;
  const SaStatus status = respond(request, response);
  std::printf("SA: lid %d method %#x attr %#x mask %#llx %s js %u -> %#x\n",
              request.sender().lid.value(), header.mad.method, header.mad.attribute_id,
              static_cast<unsigned long long>(header.component_mask), subject.c_str(), join_state,
              static_cast<unsigned>(status));
  if (header.mad.method != method::kGetTable || status != SaStatus::ok) {
    response.mad.status = static_cast<std::uint16_t>(status);
    response.mad.method = header.mad.method == method::kSet
                              ? method::kGetResp
                              : static_cast<std::uint8_t>(header.mad.method | method::kResponse);
    response.emit(request.mad());
    request.set_destination(request.sender());
    send(request, 0, 0);
  }
  if (const auto event = database_.take_event()) report(*event);
}

/// Writes the record of the response and its size in `header`, which is that of the request. Sends
/// the response if it is a table.
SaStatus Responder::respond(UmadBuffer& request, SaHeader& header) {
  switch (header.mad.attribute_id) {
    case attribute::kMcMemberRecord:
      return respond_to_member(request, header);
    case attribute::kPathRecord:
      return respond_to_path(request, header);
    case attribute::kInformInfo:
      if (header.mad.method != method::kSet) break;
      header.attribute_offset = wire::attribute_offset(wire::InformInfo::kSize);
      return database_.subscribe(wire::InformInfo::parse(request.data()).value(), request.sender());
    case attribute::kClassPortInfo: {
      if (header.mad.method != method::kGet) break;
      wire::ClassPortInfo info;
      info.capability_mask2 = kSendOnlyFullMember;
      info.response_time = kResponseTime;
      std::ranges::fill(request.data(), std::uint8_t{0});
      info.emit(request.data());
      return SaStatus::ok;
    }
    default:
      break;
  }
  return SaStatus::unsupported_method_attribute;
}

SaStatus Responder::respond_to_member(UmadBuffer& request, SaHeader& header) {
  MemberQuery query{McMemberRecord::parse(request.data()).value(), header.component_mask};
  SaStatus status = SaStatus::ok;
  if (header.mad.method == method::kSet) {
    status = database_.join(query);
  } else if (header.mad.method == method::kDelete) {
    status = database_.leave(query);
  } else {
    const auto found = database_.find_members(query);
    if (header.mad.method == method::kGetTable) {
      send_table(request, header, found);
      return SaStatus::ok;
    }
    if (found.empty()) {
      status = SaStatus::no_records;
    } else {
      query.record = found.front();
    }
  }
  header.attribute_offset = wire::attribute_offset(McMemberRecord::kSize);
  if (status == SaStatus::ok) query.record.emit(request.data());
  return status;
}

SaStatus Responder::respond_to_path(UmadBuffer& request, SaHeader& header) {
  const bool is_table = header.mad.method == method::kGetTable;
  if (header.mad.method != method::kGet && !is_table) {
    return SaStatus::unsupported_method_attribute;
  }
  wire::QueryFor<PathRecord> query{PathRecord::parse(request.data()).value(),
                                   header.component_mask};
  const SaStatus status = database_.find_path(query);
  if (is_table) {
    const std::vector<PathRecord> none, one{query.record};
    send_table(request, header, status == SaStatus::ok ? one : none);
    return SaStatus::ok;
  }
  header.attribute_offset = wire::attribute_offset(PathRecord::kSize);
  if (status == SaStatus::ok) query.record.emit(request.data());
  return status;
}

/// Sends records as an RMPP message; the kernel splits it into segments.
template <class Record>
void Responder::send_table(UmadBuffer& request, SaHeader header,
                           const std::vector<Record>& records) {
  const std::size_t stride = std::size_t{8} * wire::attribute_offset(Record::kSize);
  UmadBuffer table(wire::kSaHeaderSize + records.size() * stride);
  header.mad.method = method::kGetTableResp;
  header.mad.status = 0;
  header.rmpp = {.type = wire::RmppType::data, .flags = wire::RmppHeader::kActive, .data1 = 1};
  header.attribute_offset = wire::attribute_offset(Record::kSize);
  header.emit(table.mad());
  for (std::size_t i = 0; i < records.size(); ++i) {
    records[i].emit(table.data().subspan(i * stride, Record::kSize));
  }
  table.address() = request.address();
  table.set_destination(request.sender());
  send(table, kTimeout, kRetries);
}

void Responder::report(const SaDatabase::GroupEvent& event) {
  std::printf("SA: group %s %s\n", event.mgid.to_string().c_str(),
              event.trap == wire::trap::kGroupCreated ? "created" : "deleted");
  for (const Subscriber& subscriber : database_.subscribers(event.trap)) {
    UmadBuffer buffer;
    SaHeader header;
    header.mad.management_class = wire::mgmt_class::kSubnAdm;
    header.mad.class_version = kSaClassVersion;
    header.mad.method = method::kReport;
    header.mad.transaction_id = ++last_report_;
    header.mad.attribute_id = attribute::kNotice;
    header.attribute_offset = wire::attribute_offset(wire::Notice::kSize);
    header.emit(buffer.mad());
    wire::Notice notice;
    notice.trap_number = event.trap;
    notice.issuer_lid = own_.lid;
    notice.issuer_gid = own_.gid;
    notice.gid = event.mgid;
    notice.emit(buffer.data());
    buffer.set_destination(subscriber);
    send(buffer, kTimeout, kRetries);
  }
}

unsigned long number(const std::string& text) { return std::stoul(text, nullptr, 0); }

int run(int argc, char** argv) {
  std::string device, mtu, qkey;
  std::vector<std::string> partitions;
  po::options_description options(
      "sa_responder: the subnet administration of soft InfiniBand ports");
  options.add_options()("help", "this text")("device", po::value(&device)->default_value("rxe0"),
                                             "serve on port 1 of this RDMA device")(
      "mtu", po::value(&mtu)->default_value("4"), "MTU code of the subnet: 4 is 2048, 5 is 4096")(
      "qkey", po::value(&qkey)->default_value("0x0b1b"), "Q_Key of the broadcast groups")(
      "pkey", po::value(&partitions)->default_value({"0xffff"}, "0xffff"),
      "create the broadcast group of a partition; may be repeated");
  po::variables_map values;
  po::store(po::parse_command_line(argc, argv, options), values);
  if (values.contains("help")) {
    std::cout << options;
    return 0;
  }
  po::notify(values);
  SubnetSettings settings{.mtu = static_cast<std::uint8_t>(number(mtu)),
                          .qkey = QKey(static_cast<std::uint32_t>(number(qkey))),
                          .partitions = {}};
  for (const std::string& pkey : partitions) {
    settings.partitions.emplace_back(static_cast<std::uint16_t>(number(pkey)));
  }
  umad_init();
  Responder(device, settings).run();
  return 0;
}

}  // namespace

}  // namespace ipoib::kernel_peer

int main(int argc, char** argv) {
  setlinebuf(stdout);
  try {
    return ipoib::kernel_peer::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sa_responder: %s\n", error.what());
    return 1;
  }
}
