#include "softib/subnetd/subnet_process.hpp"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cassert>
#include <stdexcept>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/monotonic_clock.hpp"
#include "softib/endpoint/capture.hpp"
#include "softib/fabric/attached_processes.hpp"
#include "softib/fabric/cm_locks.hpp"
#include "softib/fabric/cm_table.hpp"
#include "softib/fabric/shared_file.hpp"
#include "softib/fabric/unused_folder.hpp"
#include "softib/rdma_cm/farewell.hpp"
#include "softib/subnet/subnet_manager.hpp"
#include "softib/subnetd/stored_options.hpp"
#include "softib/subnetd/subnet_json.hpp"
#include "softib/subnetd/value_or_throw.hpp"
#include "softib/transport/process_slot.hpp"
#include "wire/mc_member_record.hpp"
#include "wire/sa_values.hpp"

namespace softib::subnetd {

namespace json = boost::json;
using ipoib::Error;
using ipoib::Result;
using ipoib::TimePoint;

namespace {

/// The sender of a MAD without a LID of a node, such as a directed-route SMP.
constexpr NodeIndex kUnknownSender = kMaxNodes;
/// How long MADs are served before timers, requests of operators and of new processes get their
/// turn; the last one may take longer.
constexpr std::chrono::milliseconds kMadTurn{1};

/// Whether a process has the issm device of the node's port open.
bool has_open_issm(const fabric::SubnetFolder& folder, NodeIndex node) {
  const auto at = folder.open_node(node);
  return at && fabric::has_reader(at->get(), fabric::kIssmName);
}

/// The name of node 0, which is the SM or the switch, shows whether the subnet had its own SM.
void check_management(const fabric::SubnetFolder& folder, const std::optional<subnet::Node>& node,
                      subnet::Management management) {
  const bool is_own = management == subnet::Management::own;
  if (!node || (node->name == subnet::kSmName) == is_own) return;
  throw std::runtime_error("the subnet in " + folder.path() + " was started " +
                           (is_own ? "without" : "with") +
                           " a subnet manager of its own; end its programs, and remove it with "
                           "`softib stop`");
}

/// The highest port number is that of the switch with most ports, and one for the SM.
fabric::SwitchCount switch_count(const subnet::SubnetConfig& config) {
  if (!config.topology) return {};
  SwitchPort ports = 0;
  for (const auto& each : config.topology->switches)
    ports = std::max<SwitchPort>(ports, each.ports);
  return {static_cast<std::uint16_t>(config.topology->switches.size()),
          static_cast<std::uint16_t>(ports + 1)};
}

/// Takes the lock. First removes what ended subnets have left, this one included, so a new process
/// starts with the default options then.
fabric::SubnetLock take_lock(const fabric::SubnetFolder& folder) {
  fabric::remove_ended_folders(folder.path().substr(0, folder.path().rfind('/')));
  auto taken = fabric::SubnetLock::take(folder);
  if (!taken) ::rmdir(folder.path().c_str());  // if it is new, and so empty
  auto lock = value_or_throw(std::move(taken));
  folder.mark_ended(false);
  return lock;
}

}  // namespace

SubnetProcess::SubnetProcess(boost::asio::io_context& context, Options options, ipoib::Logger& log)
    : context_(context),
      folder_(std::move(options.folder)),
      log_(log),
      lock_(take_lock(folder_)),
      new_folder_(folder_),
      config_(choose_config(options.config)),
      fabric_(value_or_throw(
          fabric::FabricWriter::create_or_adopt(folder_.fabric(), switch_count(config_)))),
      subnet_(
          config_,
          {[this](NodeIndex node) { return fabric::performance_counters(fabric_.counters(node)); },
           [this](NodeIndex node) { return has_open_issm(folder_, node); },
           [this](SwitchIndex at, SwitchPort port) { return fabric_.cable_counters(at, port); },
           {[this](const Attachment& at) { return fabric_.violations(at); },
            [this](const Attachment& at) { return fabric_.last_violation(at); }},
           {[this](NodeIndex node, CheckedKey key) { return fabric_.violations(node, key); },
            [this](NodeIndex node, CheckedKey key) { return fabric_.last_violation(node, key); },
            [this](NodeIndex node, CheckedKey key) { fabric_.reset_violations(node, key); }}}),
      timer_(context),
      captures_(context, folder_, [this] {
        publish_all_captures();
        arm_timer();
      }) {
  folder_.remove_captures();
  publish_all_captures();
  if (fabric_.adopted()) adopt();
  publish();
  attach_endpoint(options.capture);
  if (!config_.roce.empty()) start_roce();
  for (NodeIndex index = 0; index < kMaxNodes; ++index) wake(index);
  control::RequestHandler& self = *this;
  server_ = std::make_unique<control::Server>(context_, folder_.control(), self, log_);
  arm_timer();
  new_folder_.keep();
}

SubnetProcess::NewFolder::NewFolder(const fabric::SubnetFolder& folder)
    : folder_(::access(folder.fabric().c_str(), F_OK) == 0 ? nullptr : &folder) {}

SubnetProcess::NewFolder::~NewFolder() {
  if (folder_ == nullptr) return;
  folder_->remove_node(kSubnetNode);
  folder_->remove();
}

SubnetProcess::~SubnetProcess() {
  *alive_ = false;
  server_.reset();
  captures_.end_all();
  endpoint_->remove_mad_receiver(*this);
  endpoint_->set_process_watcher(nullptr);
  endpoint_.reset();
  remove_folder();
}

void SubnetProcess::adopt() {
  const subnet::SubnetSnapshot before = fabric_.snapshot();
  log_.info("adopting the subnet of an earlier process: {} nodes, {} groups", before.nodes.size(),
            before.groups.size());
  for (const auto& entry : before.nodes) {
    for (const auto& file : folder_.slot_files(entry.index)) {
      if (file.is_lock()) transport::reclaim_slot(folder_, fabric_, entry.index, file.slot);
    }
  }
  subnet_.adopt(before, ipoib::monotonic_now());
}

/// Chooses the options. Called before the fabric file is adopted or created, so that it has no
/// state without options. Options of an earlier process are replaced only if its subnet can be
/// adopted. The MTUs that the operator has set for ports are not among the options of softib
/// subnet, so they stay.
subnet::SubnetConfig SubnetProcess::choose_config(
    const std::optional<subnet::SubnetConfig>& given) const {
  std::optional<subnet::SubnetConfig> stored;
  if (!given) stored = value_or_throw(read_options(folder_));
  if (stored) log_.info("keeping the options of an earlier process");
  auto config = stored ? *stored : given.value_or(subnet::SubnetConfig{});
  if (const auto fabric = fabric::Fabric::open(folder_.fabric())) {
    check_management(folder_, fabric->node(kSubnetNode), config.management);
    const auto earlier = read_options(folder_);
    if (!stored && earlier && *earlier) config.port_mtus = (*earlier)->port_mtus;
  }
  if (!stored) value_or_throw(write_options(folder_, config));
  return config;
}

/// To be called after a change of the partitions or of the MTU of a port.
Result<void> SubnetProcess::store_options() {
  config_.partitions = subnet_.partitions();
  config_.port_mtus = subnet_.port_mtus();
  auto stored = write_options(folder_, config_);
  if (!stored) log_.error("{}", stored.error().message);
  return stored;
}

void SubnetProcess::attach_endpoint(const std::string& capture) {
  endpoint_ = value_or_throw(endpoint::Endpoint::attach_node(folder_, kSubnetNode));
  if (!capture.empty()) {
    auto file = value_or_throw(endpoint::CaptureFile::open(capture, endpoint::StreamHeader::write));
    endpoint_->observe(std::make_unique<endpoint::Capture>(std::move(file), endpoint_->self()));
  }
  endpoint_->add_mad_receiver(*this);
  endpoint_->set_process_watcher(this);
}

/// Adds the one HCA of a RoCE port, and lets its port follow the network interface.
void SubnetProcess::start_roce() {
  roce_ = std::make_unique<RoceSockets>(context_, folder_, config_.roce, log_);
  const NodeIndex hca = value_or_throw(subnet_.add_hca(subnet::kRoceName));
  assert(hca == kRoceNode);
  const auto changed = [this, hca](const roce::NetworkInterface& interface) {
    endpoint_->use_sockets(roce_->own());
    auto port = subnet_.node(hca)->port;
    roce::apply(interface, port);
    (void)subnet_.set_port(hca, port);
    log_.info("{}: {}, {} GIDs", interface.name, control::name(port.state), interface.gids.size());
    publish();
  };
  roce_->start(changed, [this] { endpoint_->use_sockets(roce_->own()); });
}

/// Removes the folder. If a process is attached, its exit removes the files. The folder stays if it
/// holds other files.
void SubnetProcess::remove_folder() {
  if (!fabric::remove_if_unused(folder_, fabric_)) folder_.mark_ended(true);
}

bool SubnetProcess::is_unused() const {
  return std::ranges::none_of(fabric_.snapshot().nodes, [this](const auto& entry) {
    return entry.index != kSubnetNode && fabric::first_attached_pid(folder_, entry.index) != 0;
  });
}

void SubnetProcess::publish_node(NodeIndex index) {
  const subnet::Node* node = subnet_.node(index);
  if (node == nullptr) {
    const auto removed = fabric_.node(index);
    if (!removed) return;
    log_.info("HCA {} removed", removed->name);
    fabric_.remove_node(index);
    fabric_.set_captures(index, 0);
    folder_.remove_node(index);
    return;
  }
  if (const auto created = folder_.create_node(index); !created)
    log_.error("{}", created.error().message);
  log_.debug("{}: LID {}, {}", node->name, node->port.lid.value(), control::name(node->port.state));
  if (const auto reserved = fabric_.reserve(index); !reserved) {
    log_.error("{} cannot be used: {}", node->name, reserved.error().message);
    return;
  }
  fabric_.set_node(index, *node);
  publish_captures(index);
}

bool SubnetProcess::publish_captures(NodeIndex index) {
  const subnet::Node* node = subnet_.node(index);
  return fabric_.set_captures(index, node == nullptr ? 0 : captures_.word_of(node->name));
}

void SubnetProcess::publish_all_captures() {
  for (NodeIndex index = 0; index < kMaxNodes; ++index) {
    if (publish_captures(index)) wake(index);
  }
}

void SubnetProcess::publish() {
  if (fabric_.is_lost() && !std::exchange(is_loss_logged_, true)) {
    log_.error(
        "another process has truncated {}; end the subnet with `softib stop`, and start it "
        "again",
        folder_.fabric());
  }
  const subnet::SubnetChanges changes = subnet_.take_changes();
  for (auto bit = changes.nodes._Find_first(); bit < kMaxNodes;
       bit = changes.nodes._Find_next(bit)) {
    const auto index = static_cast<NodeIndex>(bit);
    publish_node(index);
    wake(index);
  }
  if (std::ranges::any_of(changes.switches, &subnet::SwitchChanges::ports)) {
    fabric_.set_checks(subnet_.switches().checks());
  }
  for (const auto& change : changes.switches) {
    fabric_.set_switch(subnet_.switches()[change.index], change);
  }
  for (auto index = changes.groups._Find_first(); index < kMaxGroups;
       index = changes.groups._Find_next(index)) {
    fabric_.set_group(subnet::group_lid(index), subnet_.forwarding(subnet::group_lid(index)));
  }
  for (const auto& packet : subnet_.take_outgoing()) {
    if (const auto node = subnet_.node_at(packet.dlid)) memberships_.note(*node, packet);
    std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
    if (endpoint_) endpoint_->send_mad(packet.port, packet.emit(bytes));
  }
  for (const auto& passed : subnet_.take_forwarded_mads()) {
    std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
    if (endpoint_) endpoint_->send_mad_to(passed.to, passed.packet.emit(bytes));
  }
}

void SubnetProcess::wake(NodeIndex index) {
  if (!endpoint_ || endpoint_->wake_processes(index)) return;
  to_wake_.set(index);
  wake_at_ = std::min(wake_at_, ipoib::monotonic_now() + kWakeRetry);
}

void SubnetProcess::wake_again() {
  wake_at_ = ipoib::kNever;
  const NodeSet again = std::exchange(to_wake_, {});
  for (NodeIndex index = 0; index < kMaxNodes && again.any(); ++index) {
    if (again[index]) wake(index);
  }
}

/// Called by the engine thread.
bool SubnetProcess::receive_mad(const MadPacket& packet) {
  const NodeIndex from = fabric_.node_at(0, packet.slid).value_or(kUnknownSender);
  const std::lock_guard guard(queue_mutex_);
  if (!queue_.push(from, packet)) {
    endpoint_->count(fabric::PortCounter::drop_mad_full);
  } else if (!std::exchange(is_serving_posted_, true)) {
    post_serving();
  }
  return true;
}

bool SubnetProcess::is_serving_posted() {
  const std::lock_guard guard(queue_mutex_);
  return is_serving_posted_;
}

void SubnetProcess::post_serving() {
  boost::asio::post(context_, [this, alive = alive_] {
    if (*alive) serve_mads();
  });
}

void SubnetProcess::serve_mads() {
  TimePoint now = ipoib::monotonic_now();
  const TimePoint end = now + kMadTurn;
  std::unique_lock guard(queue_mutex_);
  while (now < end && !queue_.empty()) {
    const auto [from, mad] = queue_.pop();
    guard.unlock();
    subnet_.receive(mad, now);
    publish();
    const TimePoint begun = std::exchange(now, ipoib::monotonic_now());
    guard.lock();
    queue_.charge(from, now - begun);
  }
  is_serving_posted_ = !queue_.empty();
  if (is_serving_posted_) post_serving();
  guard.unlock();
  arm_timer();
}

/// Called by the engine thread.
void SubnetProcess::connection_ended(const endpoint::RemoteProcess& process) {
  boost::asio::post(context_, [this, process, alive = alive_] {
    if (!*alive) return;
    check_later(process, kFirstProcessCheck);
    arm_timer();
  });
}

void SubnetProcess::check_later(const endpoint::RemoteProcess& process, ipoib::Duration after) {
  checks_[process] = {ipoib::monotonic_now() + after, after};
}

/// A connection may also end because one of the two sides needed its descriptors.
void SubnetProcess::check_processes(TimePoint now) {
  for (const auto& [process, check] : std::map(checks_)) {
    if (check.when > now) continue;
    if (is_serving_posted() || endpoint_->is_running(process)) {
      check_later(process, std::min<ipoib::Duration>(2 * check.after, kLongestProcessCheck));
      continue;
    }
    checks_.erase(process);
    leave_groups(process);
    end_connections(process);
  }
}

/// Ends what no other process of the node holds (rdma_cm::Node::hold_group()).
void SubnetProcess::leave_groups(const endpoint::RemoteProcess& process) {
  using ipoib::wire::McMemberRecord;
  for (const NodeIndex port : subnet_.ports_of_hca(process.node)) {
    for (const auto& mgid : memberships_.take({port, process.slot, process.epoch})) {
      for (const std::uint8_t state :
           {McMemberRecord::kFullMember, McMemberRecord::kSendOnlyFullMember}) {
        if (!fabric::has_member(folder_, port, mgid, state)) subnet_.leave_group(port, mgid, state);
      }
    }
  }
}

/// Peers on other machines do not see that a process has gone.
void SubnetProcess::end_connections(const endpoint::RemoteProcess& process) {
  if (!roce_) return;
  const auto table = fabric::read_cm_table(folder_, {process.node, process.slot}, process.epoch);
  if (!table) return;
  for (const auto& packet : rdma_cm::farewells(table->entries)) {
    std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
    endpoint_->send_mad(packet.port, packet.emit(bytes));
  }
}

void SubnetProcess::arm_timer() {
  TimePoint deadline = std::min(subnet_.next_deadline(), wake_at_);
  for (const auto& [process, check] : checks_) deadline = std::min(deadline, check.when);
  if (deadline == ipoib::kNever) {
    timer_.cancel();
    return;
  }
  timer_.expires_at(std::chrono::steady_clock::time_point(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          deadline.time_since_epoch())));
  timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    const TimePoint when = ipoib::monotonic_now();
    if (when >= wake_at_) wake_again();
    check_processes(when);
    subnet_.on_time(when);
    publish();
    arm_timer();
  });
}

struct SubnetProcess::Commands {
  SubnetProcess& process;

  /// Calls `change` for the node of that name.
  template <class Change>
  Result<json::object> on(const std::string& hca, Change&& change) const {
    const auto node = process.subnet_.find(hca);
    if (!node) {
      return Error{ENODEV, "the subnet '" + process.folder_.name() + "' has no HCA '" + hca + "'"};
    }
    const Result<void> done = change(*node);
    if (!done) return done.error();
    return json::object();
  }

  /// The same for a port of the HCA; 0: the only one.
  template <class Change>
  Result<json::object> on_port(const std::string& hca, std::uint8_t number, Change&& change) const {
    return on(hca, [&](NodeIndex first) -> Result<void> {
      const auto port = process.subnet_.find_port(first, number);
      return port ? change(*port) : Result<void>(port.error());
    });
  }

  Result<json::object> operator()(const control::SetHca& what) const {
    switch (what.state) {
      case control::HcaState::present: {
        const auto added = process.attach({what.hca});
        if (!added) return added.error();
        break;
      }
      case control::HcaState::failed:
        break;
      case control::HcaState::absent:
        return remove(what.hca);
    }
    const bool failed = what.state == control::HcaState::failed;
    return on(what.hca, [&](NodeIndex node) { return process.subnet_.set_failed(node, failed); });
  }
  Result<json::object> remove(const std::string& hca) const {
    return on(hca, [&](NodeIndex node) -> Result<void> {
      const auto blocked = fabric::block_attach(process.folder_);
      if (!blocked) return blocked.error();
      if (const int pid = fabric::first_attached_pid(process.folder_, node); pid != 0) {
        return Error{EBUSY,
                     "process " + std::to_string(pid) + " runs on '" + hca + "'; end it first"};
      }
      const bool had_mtu = !process.subnet_.port_mtus().empty();
      auto removed = process.subnet_.remove_hca(node);
      process.publish();  // while attaching is still blocked
      return removed && had_mtu ? process.store_options() : removed;
    });
  }
  Result<json::object> operator()(const control::Show&) const {
    return subnet_json(process.subnet_, process.fabric_, process.folder_);
  }
  Result<json::object> operator()(const control::SetPort& what) const {
    return on_port(what.hca, what.port, [&](NodeIndex node) {
      return process.subnet_.set_port_state(node, what.state);
    });
  }
  Result<json::object> operator()(const control::SetLid& what) const {
    return on_port(what.hca, what.port,
                   [&](NodeIndex node) { return process.subnet_.set_lid(node, what.lid); });
  }
  Result<json::object> operator()(const control::SetMtu& what) const {
    const auto mtu = ipoib::wire::mtu_code(what.mtu);
    return on_port(what.hca, what.port, [&](NodeIndex node) -> Result<void> {
      const auto set = process.subnet_.set_mtu(node, mtu);
      return set ? process.store_options() : set;
    });
  }
  Result<json::object> operator()(const control::SetLink& what) const {
    return on_port(what.hca, what.port,
                   [&](NodeIndex node) { return process.subnet_.set_faults(node, what.faults); });
  }
  Result<json::object> operator()(const control::FailQps& what) const {
    return on(what.hca, [&](NodeIndex node) -> Result<void> {
      if (!fabric::may_have_qp(process.fabric_, process.folder_, node, what.qpn)) {
        const std::string which = what.qpn == Qpn() ? "a queue pair" : "this queue pair";
        return Error{ENOENT, "no program on '" + what.hca + "' has " + which};
      }
      return process.subnet_.fail_queue_pairs(node, what.qpn);
    });
  }
  Result<json::object> operator()(const control::AddAddress& what) const {
    return on_port(what.hca, what.port,
                   [&](NodeIndex node) { return process.subnet_.add_address(node, what.address); });
  }
  Result<json::object> operator()(const control::DeleteAddress& what) const {
    return on_port(what.hca, what.port, [&](NodeIndex node) {
      return process.subnet_.delete_address(node, what.address);
    });
  }
  Result<json::object> operator()(const control::SetPartition& what) const {
    return on(what.hca, [&](NodeIndex node) -> Result<void> {
      const auto set = process.subnet_.set_membership(node, what.pkey, what.membership);
      return set ? process.store_options() : set;
    });
  }
  Result<json::object> operator()(const control::DeletePartition& what) const {
    auto done = process.subnet_.delete_partition(what.pkey);
    if (done) done = process.store_options();
    if (!done) return done.error();
    return json::object();
  }
  Result<json::object> operator()(const control::MovePKey& what) const {
    return on_port(what.hca, what.port, [&](NodeIndex node) {
      return process.subnet_.move_pkey(node, what.pkey, what.index);
    });
  }
  Result<json::object> operator()(const control::SetCable& what) const {
    const auto done = process.subnet_.set_cable(what.from, what.to, what.state);
    if (!done) return done.error();
    return json::object();
  }
  Result<json::object> operator()(const control::ChangeCable& what) const {
    const auto done = process.subnet_.set_cable(what.from, what.to, what.settings);
    if (!done) return done.error();
    return json::object();
  }
  Result<json::object> operator()(const control::SetSwitch& what) const {
    const auto done = process.subnet_.set_switch(what.name, what.state);
    if (!done) return done.error();
    return json::object();
  }
  Result<json::object> operator()(const control::Capture& what) const {
    for (const auto& hca : what.hcas) {
      const auto known = on(hca, [](NodeIndex) { return Result<void>(); });
      if (!known) return known.error();
    }
    const auto begun = process.captures_.begin(what);
    if (!begun) return begun.error();
    return json::object();
  }
  Result<json::object> operator()(const control::RestartSm&) const {
    const auto restarted = process.subnet_.restart_sm(ipoib::monotonic_now());
    if (!restarted) return restarted.error();
    return json::object();
  }
  /// The process ends after the response, which the server posts when this has returned.
  Result<json::object> operator()(const control::Stop&) const {
    process.log_.info("ending by request");
    boost::asio::post(process.context_, [&context = process.context_] {
      boost::asio::post(context, [&context] { context.stop(); });
    });
    return json::object();
  }
};

Result<NodeIndex> SubnetProcess::attach(const fabric::HcaName& hca) {
  ++requests_;
  const bool is_new = !subnet_.find(hca.name);
  auto node = subnet_.add_hca(hca.name, hca.port);
  if (node && is_new) {
    log_.info("HCA {} added: LID {}", hca.name, subnet_.node(*node)->port.lid.value());
  }
  publish();
  arm_timer();
  return node;
}

Result<json::object> SubnetProcess::handle(const control::Request& request) {
  auto content = std::visit(Commands{*this}, request);
  publish();
  arm_timer();
  return content;
}

}  // namespace softib::subnetd
