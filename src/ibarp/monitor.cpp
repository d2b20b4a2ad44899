// Prints changes, a line for each, like ip(8) monitor.
#include "monitor.hpp"

#include <sys/time.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <ctime>
#include <string_view>
#include <vector>

#include "client.hpp"
#include "json.hpp"
#include "text.hpp"
#include "watched.hpp"

namespace ipoib::ibarp {

namespace json = boost::json;

namespace {

/// Local time, "2026-11-23T17:00:00.123456".
std::string iso_time(const timeval& now) {
  std::array<char, 40> text{};
  std::tm local{};
  localtime_r(&now.tv_sec, &local);
  const auto length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &local);
  std::snprintf(text.data() + length, text.size() - length, ".%06ld",
                static_cast<long>(now.tv_usec));
  return text.data();
}

/// "Timestamp: Mon Nov 23 17:00:00 2026 123456 usec", as ip(8) prints it.
std::string long_time(const timeval& now) {
  std::array<char, 80> text{};
  std::tm local{};
  localtime_r(&now.tv_sec, &local);
  const auto length =
      std::strftime(text.data(), text.size(), "Timestamp: %a %b %e %H:%M:%S %Y", &local);
  std::snprintf(text.data() + length, text.size() - length, " %ld usec\n",
                static_cast<long>(now.tv_usec));
  return text.data();
}

std::string because(const char* why) {
  return why[0] != '\0' ? ": " + std::string(why) : std::string();
}

std::string dev(const std::string& interface) { return " dev " + ink(Ink::interface, interface); }

std::string as_text(const std::string& interface, const ibarp_event& event,
                    const ibarp_entry& entry) {
  const bool is_deleted = std::string_view(event.change) == "deleted";
  std::string out = is_deleted ? "Deleted " : "";
  out += ink_address(entry.address.family, text_of(entry.address)) + dev(interface) + " " +
         ink_state(entry.state);
  if ((entry.flags & IBARP_HAS_HARDWARE) != 0) {
    out += " qpn " + hexadecimal(entry.hardware.qpn, 6);
  }
  if ((entry.flags & (IBARP_HAS_HARDWARE | IBARP_IS_PINNED)) != 0) {
    out += " gid " + ink(Ink::link_layer, gid_text(entry.hardware.gid));
  }
  if ((entry.flags & IBARP_IS_PINNED) != 0) out += " pinned";
  if ((entry.flags & IBARP_HAS_PATH) != 0) out += " dlid " + lid_text(entry.dlid);
  return out + because(event.why);
}

/// The parts of a list, separated by commas.
std::vector<std::string_view> names_in(std::string_view list) {
  std::vector<std::string_view> names;
  while (!list.empty()) {
    const auto comma = std::min(list.find(','), list.size());
    names.push_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return names;
}

/// The value of a member of the information.
std::string value_of(std::string_view name, const ibarp_info& info) {
  if (name == "admin_up") return info.admin_up != 0 ? "yes" : "no";
  if (name == "mtu") return std::to_string(info.mtu);
  if (name == "qpn") return hexadecimal(info.hardware.qpn, 6);
  if (name == "gid") return ink(Ink::link_layer, gid_text(info.hardware.gid));
  if (name == "lid") return lid_text(info.lid);
  if (name == "sm_lid") return lid_text(info.sm_lid);
  if (name == "qkey") return hexadecimal(info.qkey, 8);
  return {};
}

std::string as_text(const std::string& interface, const ibarp_event& event,
                    const ibarp_info& info) {
  std::string out = ink(Ink::interface, interface) + ": state " + ink_state(info.state);
  for (const auto name : names_in(event.changed)) {
    if (const auto value = value_of(name, info); !value.empty()) {
      out += " " + std::string(name) + " " + value;
    }
  }
  if (info.waiting_for[0] != '\0') out += ", waiting for " + std::string(info.waiting_for);
  return out;
}

std::string as_text(const std::string& interface, const ibarp_event& event,
                    const ibarp_group& group) {
  const std::string mgid = gid_text(group.mgid);
  const bool is_known = group.address.family != 0;
  std::string out = is_known ? ink_address(group.address.family, text_of(group.address)) : mgid;
  const bool is_bad = std::string_view(event.change) == "failed";
  out += dev(interface) + " " + (is_bad ? ink(Ink::bad, event.change) : event.change);
  if (std::string_view(event.change) == "joined") out += " " + ink_state(group.membership);
  if (is_known) out += " mgid " + mgid;
  if (group.mlid != 0) out += " mlid " + lid_text(group.mlid);
  return is_bad ? out + because(event.why) : out;
}

std::string as_text(const std::string& interface, const ibarp_event& event,
                    const ibarp_station& station) {
  const std::string_view change = event.change;
  return ink_address(station.address.family, text_of(station.address)) + dev(interface) + " " +
         (change == "duplicate" ? ink(Ink::bad, change) : std::string(change)) + " mac " +
         ink(Ink::link_layer, mac_text(station.mac)) + " " + ink_state(station.state) +
         because(event.why);
}

class Monitor {
 public:
  Monitor(const Command& command, const PrintLine& print)
      : command_(command),
        print_(print),
        topics_(command.watch.topics != 0
                    ? command.watch.topics
                    : IBARP_NEIGHBOURS | IBARP_LINK | IBARP_GROUPS | IBARP_STATIONS),
        watched_(command.device, topics_,
                 static_cast<std::uint32_t>(
                     command.watch.interval.value_or(std::chrono::seconds(1)).count())) {}

  Status run() {
    (void)watched_.look();
    if (watched_.all().empty()) throw Failure(kFailed, watched_.why());
    if (!watched_.why().empty()) std::fprintf(stderr, "ibarp: %s\n", watched_.why().c_str());
    auto look_at = Watched::Clock::now() + Watched::kLook;
    while (goes_on_) {
      goes_on_ = watched_.wait_with_output(look_at);
      watched_.take([this](const auto& name, const auto& event) { on_event(name, event); },
                    [this](const auto& name) { on_daemon("end", name, "its ipoibd has ended"); });
      if (Watched::Clock::now() < look_at) continue;
      for (const auto& name : watched_.look()) {
        on_daemon("start", name, "its ipoibd is running");
      }
      look_at = Watched::Clock::now() + Watched::kLook;
    }
    return kDone;
  }

 private:
  void print_object(json::object&& object, const std::string& interface) {
    json::object line{{"event", object["event"]}, {"interface", interface}};
    if (command_.watch.stamp != WatchOptions::Stamp::none) line["timestamp"] = iso_time(now());
    for (auto& [key, value] : object) line[key] = std::move(value);
    put(json::serialize(line) + "\n");
  }
  /// A line of text, with the time if that is wanted, and what it is about if there is a choice.
  void print_text(const char* label, const std::string& text) {
    std::string line;
    if (command_.watch.stamp == WatchOptions::Stamp::brief) line += "[" + iso_time(now()) + "] ";
    if (command_.watch.stamp == WatchOptions::Stamp::line) line += long_time(now());
    const bool is_one = (topics_ & (topics_ - 1)) == 0;
    if (!is_one && label != nullptr) line += "[" + std::string(label) + "] ";
    put(line + text + "\n");
  }
  void put(const std::string& text) {
    if (!print_(text)) goes_on_ = false;
  }
  static timeval now() {
    timeval out{};
    gettimeofday(&out, nullptr);
    return out;
  }

  void on_event(const std::string& name, const ibarp_event& event) {
    switch (event.type) {
      case IBARP_NEIGHBOURS:
        return on_neighbour(name, event);
      case IBARP_LINK:
        return on_link(name, event);
      case IBARP_GROUPS:
        return on_group(name, event);
      case IBARP_STATIONS:
        return on_station(name, event);
      case IBARP_STATS:
        return on_stats(name, event);
      case IBARP_LOST:
        return on_lost(name, event);
      case IBARP_TAKEOVER:
        return on_daemon("takeover", name, "another ipoibd takes over");
      default:
        return;  // of a later version
    }
  }
  void on_neighbour(const std::string& name, const ibarp_event& event) {
    if (!command_.json) return print_text("neighbour", as_text(name, event, *event.entry));
    print_object({{"event", "neighbour"},
                  {"change", static_cast<const char*>(event.change)},
                  {"why", static_cast<const char*>(event.why)},
                  {"entry", as_json(name, *event.entry)}},
                 name);
  }
  void on_link(const std::string& name, const ibarp_event& event) {
    if (!command_.json) return print_text("link", as_text(name, event, *event.info));
    json::array changed;
    for (const auto each : names_in(event.changed)) changed.emplace_back(each);
    print_object(
        {{"event", "link"}, {"changed", std::move(changed)}, {"info", as_json(*event.info)}}, name);
  }
  void on_group(const std::string& name, const ibarp_event& event) {
    if (!command_.json) return print_text("group", as_text(name, event, *event.group));
    print_object({{"event", "group"},
                  {"change", static_cast<const char*>(event.change)},
                  {"why", static_cast<const char*>(event.why)},
                  {"group", as_json(name, *event.group)}},
                 name);
  }
  void on_station(const std::string& name, const ibarp_event& event) {
    if (!command_.json) return print_text("station", as_text(name, event, *event.station));
    print_object({{"event", "station"},
                  {"change", static_cast<const char*>(event.change)},
                  {"why", static_cast<const char*>(event.why)},
                  {"station", as_json(name, *event.station)}},
                 name);
  }
  void on_stats(const std::string& name, const ibarp_event& event) {
    struct Collected {
      std::string text;
      json::array all;
    } collected;
    const auto each = [](const ibarp_counter* counter, std::int64_t delta, void* data) {
      auto& out = *static_cast<Collected*>(data);
      std::array<char, 32> change{};
      std::snprintf(change.data(), change.size(), " %+lld", static_cast<long long>(delta));
      out.text += " " + std::string(counter->name) + change.data();
      out.all.push_back(json::object{{"name", static_cast<const char*>(counter->name)},
                                     {"value", counter->value},
                                     {"delta", delta},
                                     {"drop", counter->is_drop != 0}});
      return 0;
    };
    (void)ibarp_deltas(watched_.all().at(name).get(), each, &collected);
    if (command_.json) {
      print_object({{"event", "stats"},
                    {"interval_ms", event.interval_ms},
                    {"counters", std::move(collected.all)}},
                   name);
    } else if (!collected.text.empty()) {
      print_text("stats", ink(Ink::interface, name) + ":" + collected.text);
    }
  }
  void on_lost(const std::string& name, const ibarp_event& event) {
    if (command_.json) return print_object({{"event", "lost"}, {"events", event.lost}}, name);
    print_text("lost",
               ink(Ink::interface, name) + ": " + std::to_string(event.lost) + " events lost");
  }
  void on_daemon(const char* event, const std::string& name, const std::string& text) {
    if (command_.json) return print_object({{"event", event}}, name);
    print_text("daemon", ink(Ink::interface, name) + ": " + text);
  }

  const Command& command_;
  const PrintLine& print_;
  std::uint32_t topics_;
  Watched watched_;
  bool goes_on_ = true;
};

}  // namespace

Status monitor(const Command& command, const PrintLine& print) {
  return Monitor(command, print).run();
}

}  // namespace ipoib::ibarp
