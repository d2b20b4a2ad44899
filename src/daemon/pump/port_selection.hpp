// Decides which of the two ports of an interface serves it: the state machine of docs/states.md,
// "Ports of an interface". It decides; InterfaceLoop carries out the decisions.
//
// The rules are those of bonding's mode active-backup, with its primary_reselect and updelay.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "daemon/pump/port_role.hpp"
#include "ipoib/time.hpp"

namespace ipoib::daemon {

/// What a port can do for the interface; the greater, the better.
enum class PortHealth : std::uint8_t {
  down,    ///< the link on the port is not up
  silent,  ///< it is up, but passes nothing (path_monitor.hpp)
  no_sm,   ///< it is up, but the port has no subnet manager: new destinations cannot be resolved
  ready,
};

/// When the primary port serves again, after the backup has taken over.
enum class Reselect : std::uint8_t {
  always,   ///< when it has been usable for the hold-down time
  failure,  ///< when the backup fails
};

struct SelectionSettings {
  Reselect reselect = Reselect::always;
  /// How long a port has to be usable without interruption before the interface is moved to it,
  /// unless the other one is down or silent.
  Duration hold_down = std::chrono::seconds(10);
};

/// The port that serves an interface, and why, for the next daemon.
struct SavedSelection {
  PortName port;                      ///< without a device: unknown
  bool is_chosen = false;             ///< by the operator
  std::uint8_t hold_down_factor = 1;  ///< of the primary port
  friend bool operator==(const SavedSelection&, const SavedSelection&) = default;
};

class PortSelection {
 public:
  /// At the start, the primary port may come up so much later than the backup.
  static constexpr Duration kStartGrace = std::chrono::seconds(3);
  /// A primary port flaps if it fails again so soon after the interface was moved back to it.
  static constexpr Duration kFlapTime = std::chrono::minutes(10);
  /// Each time, the hold-down time of the primary port doubles, up to this factor.
  static constexpr std::uint8_t kMaxHoldDownFactor = 32;

  enum class Reason : std::uint8_t { down, silent, no_sm, primary_is_back };
  struct Move {
    PortRole to;
    Reason why;
    friend bool operator==(const Move&, const Move&) = default;
  };

  explicit PortSelection(const SelectionSettings& settings) : settings_(settings) {}

  void on_health(PortRole role, PortHealth health, TimePoint now);
  /// Moves the interface to a port. It stays there until that fails, whatever Reselect says.
  void choose(PortRole role);
  /// Goes on with what another daemon has saved, on the port `role`. Only at the start.
  void restore(PortRole role, const SavedSelection& saved);
  /// Without the port.
  [[nodiscard]] SavedSelection save() const { return {{}, chosen_, hold_down_factor_}; }
  /// Whether the interface is to be moved now; it then counts as moved.
  [[nodiscard]] std::optional<Move> next(TimePoint now);
  /// When next() may move it without any further stimulus.
  [[nodiscard]] TimePoint next_deadline() const;
  [[nodiscard]] PortRole active() const { return active_; }
  [[nodiscard]] PortHealth health(PortRole role) const { return ports_[role].health; }

 private:
  struct Port {
    PortHealth health = PortHealth::down;
    TimePoint since{};  ///< when the health has become better the last time
  };
  /// The move that is due at some time, if nothing changes.
  struct Due {
    Move move;
    TimePoint at;
  };
  [[nodiscard]] std::optional<Due> due() const;

  SelectionSettings settings_;
  PerPort<Port> ports_;
  PortRole active_ = PortRole::primary;
  [[nodiscard]] Duration hold_down(PortRole role) const;
  void count_flap(const Move& move, TimePoint now);

  std::optional<TimePoint> returned_;  ///< when the primary port was moved back to the last time
  std::uint8_t hold_down_factor_ = 1;  ///< of the primary port
  bool has_served_ = false;            ///< a port has been up
  bool chosen_ = false;                ///< the active one, by the operator
};

}  // namespace ipoib::daemon
