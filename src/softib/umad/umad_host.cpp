#include "softib/umad/umad_host.hpp"

#include <sys/eventfd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <utility>

#include "ipoib/monotonic_clock.hpp"
#include "softib/endpoint/last_error.hpp"
#include "softib/fabric/file_lock.hpp"
#include "softib/fabric/shared_file.hpp"

namespace softib::umad {

using ipoib::Error;
using ipoib::Result;

namespace {

/// What a function of libibumad returns for an error, whose text is the last one of the thread.
int failed(const char* function, const ipoib::Error& error) {
  endpoint::set_last_error(function, error.code, error.message.c_str());
  return -error.code;
}
std::array<std::atomic<UmadHost*>, fabric::kMaxProcessHcas> current{};  // by HCA
}  // namespace

/// Returns the host. Takes no lock outside the new one: in a child of fork(), a thread of the
/// parent could have held it.
UmadHost* UmadHost::get(std::size_t hca, std::string& why) {
  const auto endpoint = endpoint::process_endpoint(hca);
  const auto folder = fabric::SubnetFolder::from_environment();
  if (!endpoint || !folder) {
    why = endpoint ? folder.error().message : endpoint.error().message;
    return nullptr;
  }
  UmadHost* host = current.at(hca).load();
  if (host == nullptr || &host->endpoint_ != *endpoint) {
    auto created = std::make_unique<UmadHost>(**endpoint, hca, *folder, host);
    // Never destroyed.
    if (current.at(hca).compare_exchange_strong(host, created.get())) host = created.release();
  }
  std::call_once(host->receiver_set_, [&] { host->endpoint_.add_mad_receiver(*host, {}); });
  return host;
}

UmadHost* UmadHost::of_port(int port) {
  for (const auto& newest : current) {
    for (auto* host = newest.load(); host != nullptr; host = host->previous_) {
      if (host->generation_ != transport::fork_generation()) continue;
      const std::lock_guard lock(host->mutex_);
      if (host->ports_.contains(port)) return host;
    }
  }
  return nullptr;
}

UmadHost::UmadHost(endpoint::MadEndpoint& endpoint, std::size_t hca,
                   const fabric::SubnetFolder& folder, UmadHost* previous)
    : endpoint_(endpoint),
      hca_(hca),
      folder_(folder),
      previous_(previous),
      layer_({endpoint.self().node, endpoint.self().slot, endpoint.self().epoch, 0}) {}

int UmadHost::open_port(int number) {
  const HcaPorts all = endpoint_.ports();
  if (number == 0) number = all.preferred().number;
  if (number < 0 || !all.has(static_cast<unsigned>(number))) return -EINVAL;
  ipoib::FileDescriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return -EIO;
  const std::lock_guard lock(mutex_);
  if (lost_ || ports_.size() >= kMaxOpenPorts) return -EIO;
  const int port = event.get();
  // If the program has closed the descriptor of a port with close(2), its number is reused.
  if (const auto stale = ports_.find(port); stale != ports_.end()) {
    for (auto& agent : stale->second.agents) {
      if (agent) unregister(*agent);
    }
    (void)stale->second.event.release();
    ports_.erase(stale);
  }
  ports_[port].event = std::move(event);
  ports_[port].number = static_cast<std::uint8_t>(number);
  return port;
}

int UmadHost::close_port(int port) {
  const std::lock_guard lock(mutex_);
  const auto found = ports_.find(port);
  if (found == ports_.end()) return -EINVAL;
  for (auto& agent : found->second.agents) {
    if (agent) unregister(*agent);
  }
  ports_.erase(found);
  return 0;
}

int UmadHost::add_agent(int port, const Registration& registration) {
  const std::lock_guard lock(mutex_);
  const auto found = ports_.find(port);
  if (found == ports_.end()) return -EINVAL;
  auto& agents = found->second.agents;
  int id = 0;
  while (id < static_cast<int>(agents.size()) && agents[static_cast<std::size_t>(id)]) ++id;
  if (id == static_cast<int>(agents.size())) return -ENOMEM;
  if (const auto checked = registration.check(); !checked)
    return failed("umad_register", checked.error());
  const std::uint8_t at = found->second.number;
  auto claims = claim(registration, at);
  if (!claims) return failed("umad_register", claims.error());
  const auto number = layer_.add_agent(registration, {at, endpoint_.node_of(at)});
  if (!number) return failed("umad_register", number.error());
  agents[static_cast<std::size_t>(id)] = Agent{*number, std::move(*claims)};
  owners_[*number] = {port, id};
  return id;
}

int UmadHost::remove_agent(int port, int id) {
  const std::lock_guard lock(mutex_);
  const auto found = ports_.find(port);
  if (found == ports_.end() || id < 0 || id >= static_cast<int>(kMaxPortAgents)) return -EINVAL;
  auto& agent = found->second.agents[static_cast<std::size_t>(id)];
  if (!agent) return -EINVAL;
  unregister(*agent);
  agent.reset();
  return 0;
}

void UmadHost::unregister(Agent& agent) {
  layer_.remove_agent(agent.number);
  owners_.erase(agent.number);
  agent.claims.reset();
}

/// Locks one byte of the port's agents file for each request, so that only one agent of all
/// processes on the HCA takes it. The kernel releases the locks when the process dies. A port
/// without a cable gets no requests.
Result<transport::GuardedFd> UmadHost::claim(const Registration& registration,
                                             std::uint8_t port) const {
  const auto claims = registration.claims();
  if (claims.empty() || !endpoint_.ports()[port].has_cable) return transport::GuardedFd();
  const auto at = folder_.open_node(endpoint_.node_of(port));
  if (!at) return at.error();
  const transport::ForkLock held;
  auto file = fabric::open_shared(at->get(), fabric::kAgentsName, fabric::IfMissing::create);
  if (!file) return file.error();
  for (const auto offset : claims) {
    if (!fabric::try_lock(file->get(), offset)) {
      return Error{EPERM,
                   "another agent on the HCA has registered for one of these methods: end it, or "
                   "leave the method out"};
    }
  }
  return transport::GuardedFd(std::move(*file), held);
}

int UmadHost::send(int port, int id, const MadAddress& to, ConstBytes mad,
                   const RetryPolicy& retry) {
  std::unique_lock lock(mutex_);
  const auto found = ports_.find(port);
  if (found == ports_.end() || id < 0 || id >= static_cast<int>(kMaxPortAgents)) return -EINVAL;
  const auto& agent = found->second.agents[static_cast<std::size_t>(id)];
  if (!agent) return -EINVAL;
  if (lost_) return -EIO;
  MadAddress where = to;
  const HcaPorts ports = endpoint_.ports();
  const PortAttributes& by = ports[found->second.number];
  if (!by.has_cable) where.lid = Lid();  // has no route
  const auto sent = layer_.send(agent->number, where, mad, retry, by, ipoib::monotonic_now());
  if (!sent) return failed("umad_send", sent.error());
  flush(lock);
  return 0;
}

std::optional<UmadHost::Received> UmadHost::receive(int port, std::size_t limit) {
  const std::lock_guard lock(mutex_);
  const auto found = ports_.find(port);
  if (found == ports_.end()) return Received{-EINVAL, {}};
  if (lost_) return Received{-EIO, {}};
  auto& queue = found->second.queue;
  if (queue.empty()) return std::nullopt;
  if (queue.front().mad.mad.size() > limit) return queue.front();
  Received first = std::move(queue.front());
  queue.pop_front();
  if (!first.mad.solicited) {
    --found->second.unsolicited;
    found->second.unsolicited_bytes -= first.mad.mad.size();
  }
  eventfd_t ignored = 0;
  if (queue.empty()) (void)::eventfd_read(port, &ignored);
  return first;
}

bool UmadHost::receive_mad(const MadPacket& packet) {
  std::unique_lock lock(mutex_);
  layer_.receive(packet, endpoint_.ports()[packet.port], ipoib::monotonic_now());
  for (const auto why : layer_.take_drops()) endpoint_.count_at(packet.port, why);
  flush(lock);
  return true;
}

void UmadHost::mad_deadline(ipoib::TimePoint now) {
  std::unique_lock lock(mutex_);
  deadline_ = ipoib::kNever;  // the endpoint calls once for each deadline
  layer_.on_time(now);
  flush(lock);
}

/// Makes all ports readable; receive() then returns -EIO.
void UmadHost::device_lost() {
  const std::lock_guard lock(mutex_);
  lost_ = true;
  for (auto& [fd, port] : ports_) (void)::eventfd_write(fd, 1);
}

/// Called with the lock after each call into the layer; releases the lock while it sends. Packets
/// are sent before MADs become visible to receive(): a program may exit as soon as it has its
/// response, and the last ACK of that response must have been sent by then.
void UmadHost::flush(std::unique_lock<std::mutex>& lock) {
  const auto next = layer_.next_deadline();
  if (next != deadline_) endpoint_.set_mad_deadline(*this, next);
  deadline_ = next;
  const auto packets = layer_.take_outgoing();
  auto received = layer_.take_received();
  lock.unlock();
  std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
  for (const auto& packet : packets) endpoint_.send_mad(packet.port, packet.emit(bytes));
  lock.lock();
  for (auto& mad : received) deliver(std::move(mad));
}

void UmadHost::deliver(ReceivedMad mad) {
  const auto owner = owners_.find(mad.agent);
  if (owner == owners_.end()) return;
  auto& port = ports_.at(owner->second.port);
  auto& queue = port.queue;
  const bool has_room = queue.size() < kMaxQueuedMads &&
                        (mad.solicited || (port.unsolicited < kMaxQueuedUnsolicited &&
                                           port.unsolicited_bytes < kMaxUnsolicitedBytes));
  if (!has_room) return endpoint_.count_at(port.number, fabric::PortCounter::drop_mad_full);
  if (!mad.solicited) {
    ++port.unsolicited;
    port.unsolicited_bytes += mad.mad.size();
  }
  if (queue.empty()) (void)::eventfd_write(owner->second.port, 1);
  queue.push_back({owner->second.id, std::move(mad)});
}

}  // namespace softib::umad
