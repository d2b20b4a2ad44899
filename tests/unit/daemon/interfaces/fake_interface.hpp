// An interface that notes what is done to it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/interfaces/partition_interface.hpp"

namespace ipoib::daemon {

/// What was done to an interface, by its name; "~" is its end.
using Calls = std::vector<std::string>;

class FakeInterface final : public PartitionInterface {
 public:
  FakeInterface(InterfaceId id, InterfaceOwner& owner, Calls& calls, bool adopted)
      : now_called(id.name), id_(std::move(id)), owner_(owner), calls_(calls), adopted_(adopted) {}
  ~FakeInterface() override { note("~"); }

  [[nodiscard]] const InterfaceId& id() const override { return id_; }
  [[nodiscard]] InterfaceOwner& owner() const { return owner_; }
  [[nodiscard]] bool adopted() const override { return adopted_; }
  void set_ending(const Ending& ending) override {
    if (ending.removes) note("remove");
    if (ending.removes_now) note("remove now");
    if (ending.forgets_neighbours) note("forget neighbours");
  }
  [[nodiscard]] bool is_at_home() const override { return now_in == nullptr; }
  [[nodiscard]] SharedNamespace current_namespace() const override { return now_in; }
  [[nodiscard]] KeptInterface kept() const override { return {now_called, "", now_in}; }
  void on_event(const InterfaceEvent& event) override {
    std::visit([this](const auto& one) { on(one); }, event);
  }
  void replace_port(PortRole role) override {
    note(of(role) + "replace");
    if (on_replaced) on_replaced();
  }
  void rename(const std::string& name) override {
    if (std::exchange(now_called, name) != name) note("rename " + name);
  }
  [[nodiscard]] bool has_address(const IpAddress& address) const override {
    return is_at_home() && address == host_address;
  }
  void resolve(const control::ResolveRequest& request,
               std::function<void(control::Response)> done) override {
    note("resolve " + to_string(request.address) + " " + std::to_string(request.timeout.count()));
    resolving = std::move(done);
  }
  [[nodiscard]] int tun_descriptor() const override { return tun; }
  [[nodiscard]] std::vector<control::StaticNeighbour> statics() const override {
    return static_neighbours;
  }
  void save(link::NeighbourCursor from, std::function<void(SavedCache)> done) override {
    note("save " + std::to_string(from.position));
    saving = std::move(done);
  }
  void set_mode(PumpMode mode) override { note(mode == PumpMode::active ? "active" : "retired"); }
  void stop(StopReason why) override {
    note("stop");
    if (!reason_) reason_ = std::move(why);
  }
  /// As when its thread has ended.
  void end() { owner_.on_ended(id_.number, reason_.value_or(StopReason{})); }
  void end(const StopReason& why) { owner_.on_ended(id_.number, why); }

  SharedNamespace now_in;
  std::string now_called;
  int tun = -1;
  PerPort<verbs::PortSnapshot> ports;
  std::function<void()> on_replaced;
  std::vector<control::StaticNeighbour> static_neighbours;
  std::optional<IpAddress> host_address;
  std::function<void(control::Response)> resolving;  ///< of the last resolve()
  std::function<void(SavedCache)> saving;            ///< of the last save()

 private:
  void on(const PortUpdate& update) {
    ports[update.role] = update.port;
    note(of(update.role) + "port");
  }
  void on(const ClientReregister& message) { note(of(message.role) + "reregister"); }
  void on(const ObjectFailed& /*message*/) { note("object failed"); }
  void on(const SubnetNotice& notice) { note(of(notice.role) + "notice"); }
  void on(const wire::SaResponse& /*response*/) { note("response"); }
  void on(const Reconfigured& changes) {
    note("reconfigure" + std::string(changes.poll ? " poll" : "") +
         (changes.neighbours.empty() ? "" : " neighbours"));
  }
  void on(const LinkReportRequest& /*request*/) { note("report"); }
  [[nodiscard]] static std::string of(PortRole role) {
    return role == PortRole::backup ? "backup " : "";
  }
  void note(const std::string& what) { calls_.push_back(id_.name + " " + what); }

  const InterfaceId id_;
  InterfaceOwner& owner_;
  Calls& calls_;
  const bool adopted_;
  std::optional<StopReason> reason_;
};

}  // namespace ipoib::daemon
