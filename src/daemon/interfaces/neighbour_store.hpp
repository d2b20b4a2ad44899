// The static neighbours of all interfaces: permanent entries and pins, from the file and from the
// operator. They outlive the interfaces, which lose theirs with the device.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "control/neighbour_file.hpp"
#include "control/protocol.hpp"
#include "daemon/pump/messages.hpp"

namespace ipoib::daemon {

/// The static neighbours of one interface.
class StaticNeighbours {
 public:
  using To = decltype(control::StaticNeighbour::to);

  /// Takes the neighbours of a file that are for the interface. Lines that name it take precedence.
  StaticNeighbours(std::span<const control::StaticNeighbour> file, const std::string& interface);

  /// The interface has carried out a request of the operator. Ignores those that change no static
  /// neighbour.
  void on_done(const control::InterfaceRequest& request);
  /// Takes neighbours that another daemon's operator has set. The file of this one takes
  /// precedence.
  void add(std::span<const control::StaticNeighbour> others);
  [[nodiscard]] std::vector<control::StaticNeighbour> all() const;
  /// The neighbours that are not from the file.
  [[nodiscard]] std::vector<control::StaticNeighbour> by_operator() const;
  /// The contents of the file are `after` now. Takes over and returns what differs from `before`;
  /// the operator's changes of other addresses stay.
  [[nodiscard]] NeighbourChanges replace_file(std::span<const control::StaticNeighbour> before,
                                              std::span<const control::StaticNeighbour> after);

 private:
  void set(const IpAddress& address, const To& to);

  const std::string interface_;
  std::map<IpAddress, To> entries_;  ///< bounded by the limits of the link
  std::set<IpAddress> by_operator_;
};

class NeighbourStore {
 public:
  explicit NeighbourStore(std::vector<control::StaticNeighbour> file) : file_(std::move(file)) {}

  /// The static neighbours of the interface of a partition: at first the contents of the file.
  /// Never null.
  [[nodiscard]] std::shared_ptr<StaticNeighbours> of(PKey partition, const std::string& interface);
  /// Replaces the contents of the file. Returns what that changes, by partition.
  [[nodiscard]] std::map<PKey, NeighbourChanges> replace_file(
      std::vector<control::StaticNeighbour> file);
  /// The operator has deleted the interface, which may still use its own until it is destroyed.
  void forget(PKey partition) { interfaces_.erase(partition); }

 private:
  std::vector<control::StaticNeighbour> file_;
  std::map<PKey, std::shared_ptr<StaticNeighbours>> interfaces_;
};

}  // namespace ipoib::daemon
