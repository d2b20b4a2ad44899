// What an operator does to cables and switches: plugs, pulls and changes cables, takes the power
// from switches. Decides which links can be up.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ipoib/result.hpp"
#include "softib/subnet/subnet_manager.hpp"

namespace softib::subnet {

/// What else changes in the subnet when a link comes up or goes down.
class LinkObserver {
 public:
  virtual ~LinkObserver() = default;
  /// The link of an HCA was set to another state.
  virtual void node_changed(NodeIndex node, PortState before) = 0;
  /// A link of a switch came up or went down.
  virtual void link_changed(SwitchIndex at) = 0;
  /// The link of a switch's port had an error.
  virtual void link_failed(const Attachment& at, LinkError error) = 0;
  /// Cables between switches have changed.
  virtual void ways_changed() = 0;
};

class Cables {
 public:
  /// Both must outlive this object.
  Cables(SubnetManager& manager, LinkObserver& observer) : manager_(manager), observer_(observer) {}

  /// Each fails with ENOENT if there is no such cable or switch, and with EINVAL if there are
  /// several cables of these ends.
  [[nodiscard]] ipoib::Result<void> set(const CableEnd& from, const std::optional<CableEnd>& to,
                                        CableState state);
  /// A link whose width or speed changes is trained again. What is an error of the link, as is
  /// `stall`, is one of the switches' ports; EHOSTDOWN if the link is down.
  [[nodiscard]] ipoib::Result<void> set(const CableEnd& from, const std::optional<CableEnd>& to,
                                        const CableSettings& settings);
  [[nodiscard]] ipoib::Result<void> set_switch(std::string_view name, SwitchState state);
  /// Sets the state of an HCA's link; `active` means as far as the link comes up by itself. Plugs
  /// the cable in, or pulls it. Fails with EHOSTDOWN if the link cannot come up.
  [[nodiscard]] ipoib::Result<void> set_port(NodeIndex node, PortState state);
  /// Takes down the link of an HCA that has come up but cannot be.
  void check_port(NodeIndex node);

 private:
  [[nodiscard]] std::vector<Attachment> find(const CableEnd& from,
                                             const std::optional<CableEnd>& to) const;
  [[nodiscard]] ipoib::Result<Attachment> find_one(const CableEnd& from,
                                                   const std::optional<CableEnd>& to) const;
  [[nodiscard]] ExternalPort& port(const Attachment& at) {
    return manager_.switches()[at.switch_index].ports[at.port];
  }
  [[nodiscard]] ipoib::Result<std::vector<Attachment>> ends_of_link(const Attachment& at);
  [[nodiscard]] ipoib::Result<void> stall(const Attachment& at);
  [[nodiscard]] ipoib::Result<void> overrun(const Attachment& at, std::uint16_t periods);
  [[nodiscard]] ipoib::Result<void> retrain(const Attachment& at);
  [[nodiscard]] ipoib::Result<void> update_link(const Attachment& at);
  [[nodiscard]] ipoib::Result<void> set_node_state(NodeIndex node, PortState state);

  SubnetManager& manager_;
  LinkObserver& observer_;
};

}  // namespace softib::subnet
