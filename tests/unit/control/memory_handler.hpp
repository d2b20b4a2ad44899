// A control::Handler in memory.
#pragma once

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "control/server.hpp"

namespace ipoib::control {

/// Responds at once; between hold() and release(), only at release(). Thread-safe.
class MemoryHandler : public Handler {
 public:
  void handle(InterfaceRequest request, std::function<void(Response)> done) override {
    if (before_request) before_request(request);
    const std::lock_guard lock(mutex_);
    ++handled_;
    changed_.notify_all();
    if (holding_) {
      held_.emplace_back(std::move(request), std::move(done));
    } else {
      done(std::visit(*this, request));
    }
  }

  void find_members(const Gid& mgid, std::function<void(Response)> done) override {
    const std::lock_guard lock(mutex_);
    const auto at = members_.find(mgid);
    if (at == members_.end())
      return done(Error{ETIMEDOUT, "no response from the subnet administrator"});
    done(Reply(at->second));
  }

  void add_interface(const AddInterfaceRequest& request,
                     std::function<void(Response)> done) override {
    if (request.pkey == kRefused) return done(Error{EEXIST, "the partition has an interface"});
    std::string warning = request.pkey == kLimited ? "a limited member" : "";
    done(Reply(AddedInterface{request.name.empty() ? "ib0.8001" : request.name, warning}));
  }
  void delete_interface(std::function<void(Response)> done) override {
    const std::lock_guard lock(mutex_);
    if (std::exchange(deleted_, true)) return done(Error{EBUSY, "it is the last interface"});
    done(Reply(Done{}));
  }
  static constexpr PKey kRefused{0x8002};  ///< has an interface already
  static constexpr PKey kLimited{0x8003};  ///< added with a warning

  /// Called before each request, on the server's thread.
  std::function<void(const InterfaceRequest&)> before_request;

  void hold() {
    const std::lock_guard lock(mutex_);
    holding_ = true;
  }
  /// Responds to the requests that were held, from the calling thread.
  void release() {
    const std::lock_guard lock(mutex_);
    holding_ = false;
    for (auto& [request, done] : std::exchange(held_, {})) done(std::visit(*this, request));
  }
  /// Waits until so many requests have arrived.
  void wait_for(std::size_t requests) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return handled_ >= requests; });
  }
  /// What the interface was told to report.
  [[nodiscard]] Topics watched() {
    const std::lock_guard lock(mutex_);
    return watched_;
  }
  /// How many requests have arrived.
  [[nodiscard]] std::size_t handled() {
    const std::lock_guard lock(mutex_);
    return handled_;
  }
  void put(InterfaceInfo info) {
    const std::lock_guard lock(mutex_);
    info_ = std::move(info);
  }
  void put(std::vector<Counter> counters) {
    const std::lock_guard lock(mutex_);
    counters_ = std::move(counters);
  }
  /// Makes it an Ethernet interface with these stations.
  void put(std::vector<Station> stations) {
    const std::lock_guard lock(mutex_);
    stations_ = std::move(stations);
  }
  void put(const Gid& mgid, std::vector<Member> members) {
    const std::lock_guard lock(mutex_);
    members_[mgid] = std::move(members);
  }
  void put(Entry entry) {
    const std::lock_guard lock(mutex_);
    entries_[entry.address] = std::move(entry);
  }
  /// What a resolution finds. Without a hardware address, the neighbour does not answer.
  void put_neighbour(Entry entry) {
    const std::lock_guard lock(mutex_);
    neighbours_[entry.address] = std::move(entry);
  }

  Response operator()(const ListRequest& request) {
    EntryPage page;
    auto at = entries_.begin();
    std::advance(at, std::min<std::size_t>(request.cursor, entries_.size()));
    for (; at != entries_.end() && page.entries.size() < kPageEntries; ++at) {
      page.entries.push_back(at->second);
    }
    if (at != entries_.end()) page.next = request.cursor + page.entries.size();
    return Reply(page);
  }
  Response operator()(const GetRequest& request) {
    const auto at = entries_.find(request.address);
    if (at == entries_.end()) return missing(request.address);
    return Reply(at->second);
  }
  Response operator()(const ResolveRequest& request) {
    const auto known = entries_.find(request.address);
    const bool is_asked = known == entries_.end() || !known->second.path;
    if (is_asked) {
      const auto at = neighbours_.find(request.address);
      if (at == neighbours_.end()) return Error{ENETUNREACH, "not on this link"};
      count("arp_requests_broadcast");
      entries_[request.address] = at->second;
      if (!at->second.hardware) return Error{EHOSTUNREACH, "the neighbour does not answer"};
      count("path_requests");
      if (!at->second.path) return Error{ETIMEDOUT, "the subnet administrator does not answer"};
    }
    const Entry& entry = entries_[request.address];
    return Reply(Resolution{request.address, entry.hardware.value(), entry.path.value(), info_.gid,
                            info_.lid, info_.pkey});
  }
  Response operator()(const SetRequest& request) {
    const bool exists = entries_.count(request.address) != 0;
    if (exists && request.mode == SetRequest::Mode::add) {
      return Error{EEXIST, to_string(request.address) + ": entry exists already"};
    }
    if (!exists && request.mode == SetRequest::Mode::change) return missing(request.address);
    Entry entry;
    entry.address = request.address;
    entry.state = "permanent";
    entry.hardware = request.hardware;
    entries_[request.address] = entry;
    return Reply(Done{});
  }
  Response operator()(const PinRequest& request) {
    Entry entry;
    entry.address = request.address;
    entry.state = "pinned";
    entry.pinned = request.gid;
    entries_[request.address] = entry;
    return Reply(Done{});
  }
  Response operator()(const DeleteRequest& request) {
    if (entries_.erase(request.address) == 0) return missing(request.address);
    return Reply(Done{});
  }
  Response operator()(const FlushRequest& request) {
    const auto& filter = request.filter;
    return Reply(Flushed{std::erase_if(entries_, [&](const auto& each) {
      const auto& state = each.second.state;
      return filter.matches(each.first, state) && (state != "permanent" || !filter.states.empty());
    })});
  }
  Response operator()(const StatsRequest& /*request*/) {
    auto counters = counters_;
    if (watched_.stats) counters.front().value = sent_ += 7;
    return Reply(std::move(counters));
  }
  Response operator()(const HistogramsRequest& /*request*/) {
    return Reply(
        std::vector<Histogram>{{"resolution_time", {1'000'000, 2'500'000}, {3, 2, 1}, 42}});
  }
  Response operator()(const InfoRequest& /*request*/) { return Reply(info_); }
  Response operator()(const FailoverRequest& request) {
    if (info_.ports.empty()) return Error(EOPNOTSUPP, "the interface has one port");
    for (PortInfo& port : info_.ports) {
      port.active = request.device.empty() ? !port.active : port.device == request.device;
    }
    return Reply(Done{});
  }
  /// Each page has one station.
  Response operator()(const StationsRequest& request) {
    if (!stations_) return Error(EOPNOTSUPP, "there are no stations");
    StationPage page;
    if (request.cursor < stations_->size()) page.stations.push_back((*stations_)[request.cursor]);
    if (request.cursor + 1 < stations_->size()) page.next = request.cursor + 1;
    return Reply(std::move(page));
  }
  Response operator()(const SubscribeRequest& request) {
    watched_ = request.topics;
    return Reply(Done{});
  }

 private:
  static Error missing(const IpAddress& address) {
    return {ENOENT, to_string(address) + ": no such entry"};
  }
  void count(const char* name) {
    const auto at = std::ranges::find(counters_, name, &Counter::name);
    if (at == counters_.end()) return counters_.push_back({name, 1, false});
    ++at->value;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool holding_ = false;
  bool deleted_ = false;
  std::size_t handled_ = 0;
  std::uint64_t sent_ = 0;  ///< counter that grows with each request while somebody watches
  Topics watched_;
  std::vector<std::pair<InterfaceRequest, std::function<void(Response)>>> held_;
  std::map<IpAddress, Entry> entries_;
  std::map<IpAddress, Entry> neighbours_;
  std::map<Gid, std::vector<Member>> members_;
  InterfaceInfo info_;
  std::optional<std::vector<Station>> stations_;
  std::vector<Counter> counters_{
      {"packets_sent", 7, false}, {"path_failed", 2, true}, {"join_failures", 3, false}};
};

}  // namespace ipoib::control
