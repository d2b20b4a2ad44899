// Shows interfaces and neighbours with their rates, like top(1).
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client.hpp"
#include "color.hpp"
#include "host_bytes.hpp"
#include "json.hpp"
#include "monitor.hpp"
#include "screen.hpp"
#include "table/table.hpp"
#include "text.hpp"

namespace ipoib::ibarp {

namespace json = boost::json;

namespace {

using Clock = std::chrono::steady_clock;
using Sort = WatchOptions::Sort;
using table::Align;

/// What an interface has sent and received, and what was dropped.
struct Totals {
  std::uint64_t tx_packets = 0;
  std::uint64_t rx_packets = 0;
  std::uint64_t drops = 0;
  std::optional<HostBytes> bytes{};
};

struct InterfaceLine {
  ibarp_info info{};
  Totals totals;
  std::uint64_t neighbours = 0;
  std::string failure{};  ///< why there is nothing else
};

/// Rates per second; empty if not known.
struct Rates {
  std::optional<double> tx_packets{};
  std::optional<double> rx_packets{};
  std::optional<double> tx_bits{};
  std::optional<double> rx_bits{};
  std::optional<double> drops{};
};

struct NeighbourLine {
  std::string interface;
  ibarp_entry entry{};
  std::optional<double> rate{};  ///< packets per second
};

struct Sample {
  Clock::time_point when;
  std::map<std::string, InterfaceLine> interfaces;
  std::vector<NeighbourLine> neighbours;
};

/// "7", "12.3k", "4.56M": three digits.
std::string brief(double value) {
  static constexpr std::array<const char*, 5> kUnits{"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  const bool is_whole =
      unit == 0 && value == static_cast<double>(static_cast<std::uint64_t>(value));
  const int digits = is_whole || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f%s", digits, value, kUnits.at(unit));
  return text.data();
}

std::string brief(std::optional<double> value) { return value ? brief(*value) : "-"; }

std::string_view word_for(Sort sort) {
  return std::ranges::find(kSortNames, sort, [](const auto& each) { return each.second; })->first;
}

/// The rate of a counter; a counter that has become less has begun again.
double rate_of(std::uint64_t before, std::uint64_t now, double seconds) {
  return static_cast<double>(now >= before ? now - before : now) / seconds;
}

class Top {
 public:
  Top(const Command& command, const PrintLine& print)
      : command_(command),
        print_(print),
        interval_(command.watch.interval.value_or(std::chrono::seconds(1))),
        sort_(command.watch.sort.value_or(Sort::rate)) {}

  Status run() {
    take_sample();  // the first one has no rates
    return !command_.json && isatty(STDOUT_FILENO) != 0 ? on_screen() : as_lines();
  }

 private:
  Status on_screen() {
    Screen screen;
    auto next = Clock::now() + interval_;
    for (std::uint32_t shown = 1;;) {
      const std::size_t width = Screen::size().columns;
      screen.show(table::fold(header(), width) + text(width));
      const auto pressed = screen.key(next);
      if (pressed == 'q' || pressed == 'Q') return kDone;
      if (pressed) on_key(*pressed);
      if (Clock::now() < next && pressed != ' ') continue;
      if (command_.watch.count && shown++ >= *command_.watch.count) return kDone;
      take_sample();
      next = Clock::now() + interval_;
    }
  }
  Status as_lines() {
    for (std::uint32_t shown = 0; !command_.watch.count || shown < *command_.watch.count; ++shown) {
      std::this_thread::sleep_for(interval_);
      take_sample();
      if (!print_(command_.json ? json_line() : lines(shown == 0))) break;
    }
    return kDone;
  }
  [[nodiscard]] std::string lines(bool is_first) const {
    return (is_first ? "" : "\n") + text(command_.width);
  }
  void on_key(char pressed) {
    for (const auto& [name, by] : kSortNames) {
      if (name.front() == pressed) sort_ = by;
    }
    sort();
  }

  void take_sample();
  void read(const std::string& name, Sample& sample);
  void add_rates(const Sample& before);
  void sort();
  /// The time from the sample before to the last one.
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(now_.when - before_->when).count();
  }
  [[nodiscard]] Rates rates_of(const std::string& name, const InterfaceLine& now) const;
  [[nodiscard]] std::string json_line() const;
  [[nodiscard]] std::string header() const;
  [[nodiscard]] std::string text(std::size_t width) const;
  [[nodiscard]] table::Table interface_table() const;
  [[nodiscard]] table::Table neighbour_table() const;

  const Command& command_;
  const PrintLine& print_;
  const std::chrono::milliseconds interval_;
  Sort sort_;
  std::map<std::string, Client> clients_;
  std::optional<Sample> before_;
  Sample now_;
};

void Top::take_sample() {
  const bool is_first = now_.when == Clock::time_point{};
  Sample sample{Clock::now(), {}, {}};
  const auto bytes = read_host_bytes();
  for (const auto& name : interfaces_of(command_)) {
    try {
      read(name, sample);
      const auto counted = bytes.find(name);
      if (counted != bytes.end()) sample.interfaces[name].totals.bytes = counted->second;
    } catch (const Failure& failure) {
      if (is_first && !command_.device.empty()) throw;
      clients_.erase(name);
      sample.interfaces[name] = {};
      sample.interfaces[name].failure = failure.what();
    }
  }
  std::swap(now_, sample);
  before_.reset();
  if (!is_first) before_ = std::move(sample);
  if (before_) add_rates(*before_);
  sort();
}

void Top::read(const std::string& name, Sample& sample) {
  auto at = clients_.find(name);
  if (at == clients_.end()) at = clients_.emplace(name, Client(name)).first;
  const Client& client = at->second;
  InterfaceLine line;
  line.info = client.info();
  line.info.waiting_for = "";  // valid until the next call
  if (std::string_view(line.info.state) == "no_device") {
    sample.interfaces[name] = std::move(line);
    return;
  }
  for (const ibarp_counter& counter : client.counters()) {
    const std::string_view what(counter.name);
    if (what == "tx_packets") line.totals.tx_packets = counter.value;
    if (what == "rx_packets") line.totals.rx_packets = counter.value;
    if (what == "neighbours") line.neighbours = counter.value;
    if (counter.is_drop != 0) line.totals.drops += counter.value;
  }
  for (const ibarp_entry& entry : client.entries(command_.filter)) {
    sample.neighbours.push_back({name, entry});
  }
  sample.interfaces[name] = std::move(line);
}

void Top::add_rates(const Sample& before) {
  std::map<std::pair<std::string, std::string>, std::uint64_t> uses;
  for (const auto& [interface, entry, rate] : before.neighbours) {
    uses[{interface, text_of(entry.address)}] = entry.uses;
  }
  for (auto& line : now_.neighbours) {
    const auto found = uses.find({line.interface, text_of(line.entry.address)});
    line.rate = rate_of(found == uses.end() ? 0 : found->second, line.entry.uses, seconds());
  }
}

/// The sort is stable, so that equal ones stay in the order of their addresses.
void Top::sort() {
  const auto before = [](const NeighbourLine& a, const NeighbourLine& b) {
    const auto key = [](const NeighbourLine& line) {
      return std::pair(
          line.entry.address.family,
          std::string_view(reinterpret_cast<const char*>(line.entry.address.bytes), 16));
    };
    return std::pair(key(a), a.interface) < std::pair(key(b), b.interface);
  };
  auto& lines = now_.neighbours;
  std::ranges::sort(lines, before);
  std::ranges::stable_sort(lines, [this](const NeighbourLine& a, const NeighbourLine& b) {
    switch (sort_) {
      case Sort::rate:
        return a.rate > b.rate;
      case Sort::state:
        return std::strcmp(a.entry.state, b.entry.state) < 0;
      case Sort::idle:
        return a.entry.idle_ms < b.entry.idle_ms;
      case Sort::uses:
        return a.entry.uses > b.entry.uses;
      case Sort::address:
        break;
    }
    return false;
  });
}

Rates Top::rates_of(const std::string& name, const InterfaceLine& now) const {
  if (!before_ || !before_->interfaces.contains(name)) return {};
  const InterfaceLine& before = before_->interfaces.at(name);
  if (!before.failure.empty() || !now.failure.empty()) return {};
  const auto rate = [&](std::uint64_t Totals::*member) {
    return rate_of(before.totals.*member, now.totals.*member, seconds());
  };
  Rates rates{.tx_packets = rate(&Totals::tx_packets),
              .rx_packets = rate(&Totals::rx_packets),
              .drops = rate(&Totals::drops)};
  const auto& [old_bytes, bytes] = std::pair(before.totals.bytes, now.totals.bytes);
  if (old_bytes && bytes) {
    rates.tx_bits = 8 * rate_of(old_bytes->sent, bytes->sent, seconds());
    rates.rx_bits = 8 * rate_of(old_bytes->received, bytes->received, seconds());
  }
  return rates;
}

std::string Top::json_line() const {
  json::array interfaces;
  for (const auto& [name, line] : now_.interfaces) {
    json::object one{{"interface", name}};
    if (!line.failure.empty()) {
      one["failure"] = line.failure;
    } else {
      one["state"] = std::string_view(line.info.state);
      one["admin_up"] = line.info.admin_up != 0;
      one["neighbours"] = line.neighbours;
    }
    const Rates rates = rates_of(name, line);
    const auto add = [&one](const char* key, std::optional<double> rate) {
      if (rate) one[key] = *rate;
    };
    add("tx_packets_per_s", rates.tx_packets);
    add("rx_packets_per_s", rates.rx_packets);
    add("tx_bits_per_s", rates.tx_bits);
    add("rx_bits_per_s", rates.rx_bits);
    add("drops_per_s", rates.drops);
    interfaces.push_back(std::move(one));
  }
  json::array neighbours;
  for (const auto& [interface, entry, rate] : now_.neighbours) {
    json::object one{{"entry", as_json(interface, entry)}};
    if (rate) one["packets_per_s"] = *rate;
    neighbours.push_back(std::move(one));
  }
  return json::serialize(json::object{{"interval_ms", std::llround(1000 * seconds())},
                                      {"interfaces", std::move(interfaces)},
                                      {"neighbours", std::move(neighbours)}}) +
         "\n";
}

std::string Top::header() const {
  std::array<char, 32> clock{};
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  (void)std::strftime(clock.data(), clock.size(), "%H:%M:%S", &local);
  std::array<char, 32> every{};
  std::snprintf(every.data(), every.size(), "%g", std::chrono::duration<double>(interval_).count());
  return "ibarp top " + std::string(clock.data()) + ", every " + every.data() + " s, by " +
         std::string(word_for(sort_)) + "; keys: rate address state idle uses quit\n\n";
}

table::Table Top::interface_table() const {
  table::Table table({{"DEV"},
                      {"STATE"},
                      {"TX", Align::right, 3},
                      {"RX", Align::right, 4},
                      {"TX BIT/S", Align::right},
                      {"RX BIT/S", Align::right},
                      {"DROPS", Align::right, 2},
                      {"NEIGHBOURS", Align::right, 1}});
  for (const auto& [name, line] : now_.interfaces) {
    if (!line.failure.empty()) {
      table.add(
          {ink(Ink::interface, name), ink(Ink::bad, "not running"), "-", "-", "-", "-", "-", "-"});
      continue;
    }
    const Rates rates = rates_of(name, line);
    const bool is_down = line.info.admin_up == 0;
    table.add({ink(Ink::interface, name),
               is_down ? ink(Ink::bad, "down") : ink_state(line.info.state),
               brief(rates.tx_packets), brief(rates.rx_packets), brief(rates.tx_bits),
               brief(rates.rx_bits), brief(rates.drops), std::to_string(line.neighbours)});
  }
  return table;
}

table::Table Top::neighbour_table() const {
  table::Table table({{"ADDRESS"},
                      {"DEV"},
                      {"STATE"},
                      {"PACKETS/S", Align::right},
                      {"USES", Align::right, 3},
                      {"IDLE", Align::right, 4},
                      {"WAIT", Align::right, 2},
                      {"GID", Align::left, 1}});
  for (const auto& [interface, entry, rate] : now_.neighbours) {
    const bool known = (entry.flags & (IBARP_HAS_HARDWARE | IBARP_IS_PINNED)) != 0;
    table.add({ink_address(entry.address.family, text_of(entry.address)),
               ink(Ink::interface, interface), ink_state(entry.state), brief(rate),
               std::to_string(entry.uses), age(entry.idle_ms), std::to_string(entry.waiting),
               known ? ink(Ink::link_layer, gid_text(entry.hardware.gid)) : "-"});
  }
  return table;
}

std::string Top::text(std::size_t width) const {
  const auto neighbours = neighbour_table();
  return interface_table().text(width) + (neighbours.empty() ? "" : "\n" + neighbours.text(width));
}

}  // namespace

Status top(const Command& command, const PrintLine& print) { return Top(command, print).run(); }

}  // namespace ipoib::ibarp
