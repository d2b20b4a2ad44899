#include "softib/cli/change.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "ipoib/pkey_table.hpp"
#include "program/nearest.hpp"
#include "softib/core/name.hpp"
#include "wire/sa_values.hpp"

namespace softib::cli {

using ipoib::Error;
using ipoib::Result;

namespace {

template <class Number = std::uint16_t>
std::optional<Number> number(std::string_view text) {
  const bool is_hex = text.starts_with("0x") || text.starts_with("0X");
  if (is_hex) text.remove_prefix(2);
  Number value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, is_hex ? 16 : 10);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

/// The arguments of a change, taken one after the other. Remembers the first error.
class Arguments {
 public:
  explicit Arguments(std::vector<std::string> words) : words_(std::move(words)) {}

  /// `name` stands for the argument in the error message.
  std::string take(std::string_view name) {
    if (next_ == words_.size()) return refuse(std::string(name) + " is missing"), std::string();
    return words_[next_++];
  }
  /// Takes `word` if it is the only argument that is left. Returns whether it was.
  bool take_last(std::string_view word) {
    const bool is_it = next_ + 1 == words_.size() && words_[next_] == word;
    if (is_it) ++next_;
    return is_it;
  }
  std::string hca() {
    auto name = take("HCA");
    if (!refused_ && !is_valid_name(name)) refuse(invalid_name("HCA", name).message);
    return name;
  }
  PKey pkey() {
    const auto word = take("PKEY");
    const auto key = ipoib::parse_pkey(word);
    if (!key) refuse_value(word, "P_Key", ipoib::kPKeyRange);
    return key.value_or(PKey());
  }
  template <class Number>
  Number number_between(std::string_view name, std::string_view what, Number least, Number most) {
    const auto word = take(name);
    const auto value = number<Number>(word);
    if (!value || *value < least || *value > most) {
      refuse_value(word, what, std::to_string(least) + " to " + std::to_string(most));
    }
    return value.value_or(Number{0});
  }
  std::uint16_t mtu() {
    const auto word = take("BYTES");
    const auto value = number(word);
    if (!value || ipoib::wire::mtu_code(*value) == 0) {
      refuse_value(word, "MTU", "256, 512, 1024, 2048 or 4096");
    }
    return value.value_or(0);
  }
  /// Takes a percentage, in hundredths.
  std::uint16_t percentage() {
    const auto word = take("PERCENT");
    double value = -1;
    const char* const end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, value);
    const bool is_valid = error == std::errc{} && stop == end && value >= 0 && value <= 100;
    if (!is_valid) refuse_value(word, "percentage", "0 to 100");
    return is_valid ? static_cast<std::uint16_t>(std::lround(value * 100)) : std::uint16_t{0};
  }
  IpAddress address() {
    const auto word = take("ADDRESS");
    const auto address = ipoib::parse_ip_address(word);
    if (!address) refuse_value(word, "IP address", "IPv4 or IPv6");
    return address.value_or(IpAddress());
  }
  /// Takes an end of a cable: NAME or NAME[PORT].
  subnet::CableEnd cable_end() { return named_port("END", kMaxSwitchPort); }
  subnet::CableEnd named_port(std::string_view what, SwitchPort most) {
    auto word = take(what);
    subnet::CableEnd end;
    const auto bracket = word.find('[');
    end.name = word.substr(0, bracket);
    if (bracket != std::string::npos) {
      const bool is_closed = word.back() == ']';
      const auto digits = std::string_view(word).substr(bracket + 1);
      const auto port = number(digits.substr(0, digits.size() - (is_closed ? 1 : 0)));
      if (!is_closed || !port || *port == 0 || *port > most) {
        refuse_value(word, what == "END" ? "end of a cable" : "port of an HCA",
                     "NAME or NAME[PORT]");
      }
      end.port = port.value_or(0);
    }
    if (!refused_ && !is_valid_name(end.name)) {
      refuse(invalid_name(what == "END" ? "end" : "HCA", end.name).message);
    }
    return end;
  }
  /// Takes a port of an HCA: NAME, or NAME[PORT]. Returns the name, and sets the port.
  std::string hca_port(std::uint8_t& port) {
    const auto end = named_port("HCA", kMaxHcaPorts);
    port = static_cast<std::uint8_t>(end.port);
    return end.name;
  }
  /// The next argument; requires that one is left.
  [[nodiscard]] std::string_view next() const { return words_[next_]; }
  /// Whether two arguments or more are left.
  [[nodiscard]] bool has_two() const { return next_ + 2 <= words_.size(); }
  [[nodiscard]] bool is_empty() const { return next_ == words_.size() || refused_; }
  /// Takes an argument with `parse`, which returns an optional value.
  template <class Parse>
  auto state(std::string_view what, std::string_view choices, Parse parse) {
    const auto word = take(choices);
    const auto value = parse(word);
    if (!value) refuse_value(word, what, choices);
    using Value = typename decltype(parse(word))::value_type;
    return value.value_or(Value{});
  }
  [[nodiscard]] Result<control::Request> done(control::Request request) {
    if (next_ != words_.size()) refuse("unexpected argument '" + words_[next_] + "'");
    if (refused_) return *refused_;
    return request;
  }

 private:
  void refuse(std::string why) {
    if (!refused_) refused_ = Error{EINVAL, std::move(why)};
  }
  void refuse_value(const std::string& word, std::string_view what, std::string_view choices) {
    refuse("'" + word + "' is not a valid " + std::string(what) + " (" + std::string(choices) +
           ")");
  }

  std::vector<std::string> words_;
  std::size_t next_ = 0;
  std::optional<Error> refused_;
};

Result<control::Request> read_hca(Arguments& words) {
  control::SetHca change{words.hca(), {}};
  change.state = words.state("state of an HCA", "present|absent|failed", control::parse_hca_state);
  return words.done(change);
}

Result<control::Request> read_port(Arguments& words) {
  control::SetPort change;
  change.hca = words.hca_port(change.port);
  change.state = words.state("state of a port", "up|down|init|armed", [](std::string_view word) {
    return control::parse_port_state(word == "up" ? "active" : word);
  });
  return words.done(change);
}

Result<control::Request> read_lid(Arguments& words) {
  control::SetLid change;
  change.hca = words.hca_port(change.port);
  constexpr std::uint16_t kLast = ipoib::kFirstMulticastLid.value() - 1;
  change.lid = Lid(words.number_between<std::uint16_t>("LID", "LID", 1, kLast));
  return words.done(change);
}

Result<control::Request> read_mtu(Arguments& words) {
  control::SetMtu change;
  change.hca = words.hca_port(change.port);
  change.mtu = words.mtu();
  return words.done(change);
}

Result<control::Request> read_link(Arguments& words) {
  control::SetLink change;
  change.hca = words.hca_port(change.port);
  if (words.take_last("off")) return words.done(change);
  auto& faults = change.faults;
  do {
    using Name = std::optional<std::string>;
    const auto name =
        words.state("fault of a link", "loss|duplicate|reorder|corrupt|cm-loss|delay|seed",
                    [](const std::string& word) -> Name {
                      constexpr std::array<std::string_view, 7> kNames{
                          "loss", "duplicate", "reorder", "corrupt", "cm-loss", "delay", "seed"};
                      return std::ranges::count(kNames, word) != 0 ? Name(word) : std::nullopt;
                    });
    if (name == "loss") faults.loss = words.percentage();
    if (name == "duplicate") faults.duplicate = words.percentage();
    if (name == "reorder") faults.reorder = words.percentage();
    if (name == "corrupt") faults.corrupt = words.percentage();
    if (name == "cm-loss") faults.cm_loss = words.percentage();
    if (name == "delay") {
      faults.delay = words.number_between<std::uint16_t>("MS", "delay", 0, LinkFaults::kMaxDelay);
    }
    if (name == "seed") {
      faults.seed = words.number_between<std::uint32_t>("NUMBER", "seed", 1, UINT32_MAX);
    }
  } while (!words.is_empty());
  return words.done(change);
}

Result<control::Request> read_qp(Arguments& words) {
  control::FailQps change{words.hca(), {}};
  (void)words.state("state of a queue pair", "error", [](std::string_view word) {
    return word == "error" ? std::optional(true) : std::nullopt;
  });
  if (words.is_empty()) return words.done(change);
  constexpr auto kFirst = QpnLayout::make(1, 0, 0).value();
  constexpr auto kLast = ipoib::kMulticastQpn.value() - 1;
  change.qpn = Qpn(words.number_between<std::uint32_t>("QPN", "queue pair number", kFirst, kLast));
  return words.done(change);
}

Result<control::Request> read_address(Arguments& words) {
  control::AddAddress change;
  change.hca = words.hca_port(change.port);
  change.address = words.address();
  if (words.take_last("delete")) {
    return words.done(control::DeleteAddress{change.hca, change.address, change.port});
  }
  return words.done(change);
}

Result<control::Request> read_partition(Arguments& words) {
  control::SetPartition change;
  change.pkey = words.pkey();
  if (words.take_last("delete")) return words.done(control::DeletePartition{change.pkey});
  change.hca = words.hca();
  change.membership = words.state("membership", "full|limited|none", control::parse_membership);
  return words.done(change);
}

Result<control::Request> read_pkey(Arguments& words) {
  control::MovePKey change;
  change.pkey = words.pkey();
  change.hca = words.hca_port(change.port);
  change.index = words.number_between<std::uint16_t>("INDEX", "index", 0, kPKeyTableSize - 1);
  return words.done(change);
}

bool is_cable_setting(std::string_view word) {
  constexpr std::array<std::string_view, 5> kNames{"width", "speed", "loss", "delay", "overruns"};
  return std::ranges::count(kNames, word) != 0;
}

Result<control::Request> read_cable_settings(Arguments& words, control::ChangeCable change) {
  auto& settings = change.settings;
  do {
    const auto name = words.state(
        "setting of a cable", "width|speed|loss|delay|overruns", [](const std::string& word) {
          return is_cable_setting(word) ? std::optional(word) : std::nullopt;
        });
    if (name == "width") {
      settings.width = words.state("width of a link", "1x|2x|4x|8x|12x", control::parse_link_width);
    }
    if (name == "speed") {
      settings.speed = words.state("speed of a link", "SDR|DDR|QDR", control::parse_link_speed);
    }
    if (name == "loss") settings.loss = words.percentage();
    if (name == "delay") {
      settings.delay = words.number_between<std::uint16_t>("MS", "delay", 0, LinkFaults::kMaxDelay);
    }
    if (name == "overruns") {
      settings.overruns = words.number_between<std::uint16_t>("NUMBER", "number of periods", 0,
                                                              subnet::kMaxOverruns);
    }
  } while (!words.is_empty());
  return words.done(change);
}

Result<control::Request> read_cable(Arguments& words) {
  control::SetCable change;
  change.from = words.cable_end();
  if (words.has_two() && !is_cable_setting(words.next())) change.to = words.cable_end();
  if (words.has_two() && is_cable_setting(words.next())) {
    return read_cable_settings(words, {change.from, change.to, {}});
  }
  change.state =
      words.state("change of a cable", "up|down|flap|stall|width|speed|loss|delay|overruns",
                  control::parse_cable_state);
  return words.done(change);
}

Result<control::Request> read_switch(Arguments& words) {
  control::SetSwitch change;
  change.name = words.take("SWITCH");
  change.state =
      words.state("state of a switch", "present|absent|reset", control::parse_switch_state);
  return words.done(change);
}

Result<control::Request> read_sm(Arguments& words) {
  (void)words.state("change of the subnet manager", "restart", [](std::string_view word) {
    return word == "restart" ? std::optional(true) : std::nullopt;
  });
  return words.done(control::RestartSm{});
}

struct Change {
  std::string_view name;
  std::string_view arguments;
  std::string_view help;  ///< lines
  Result<control::Request> (*read)(Arguments& words);
};

constexpr std::array kChanges{
    Change{"hca", "HCA present|absent|failed",
           "add or repair an HCA; remove it; let it fail\nwhile programs use it", read_hca},
    Change{"port", "HCA[PORT] up|down|init|armed",
           "set the state of an HCA's port (up: active);\nPORT is needed if two have cables",
           read_port},
    Change{"lid", "HCA[PORT] LID", "set the LID of an HCA's port", read_lid},
    Change{"mtu", "HCA[PORT] BYTES", "set the MTU of an HCA's port, for paths and\nlater joins",
           read_mtu},
    Change{
        "link", "HCA[PORT] off|FAULT...",
        "lose, duplicate, reorder, corrupt or delay\nwhat the HCA sends, for tests. FAULT: loss,\n"
        "duplicate, reorder, corrupt or cm-loss (of\nconnection management only) with "
        "a\npercentage, "
        "or delay with milliseconds; what\nis not given is off. seed NUMBER makes the\nfaults "
        "repeatable",
        read_link},
    Change{"qp", "HCA error [QPN]",
           "move a queue pair of the programs on an HCA,\nor all of them, to the error state",
           read_qp},
    Change{"address", "HCA[PORT] ADDRESS [delete]",
           "give an HCA's port an IP address for programs\nof librdmacm, beside its default ones; "
           "take\nit away",
           read_address},
    Change{"partition", "PKEY HCA full|limited|none | PKEY delete",
           "set the membership of an HCA in a partition,\nwhich is created if necessary; delete "
           "the\npartition with its groups",
           read_partition},
    Change{"pkey", "PKEY HCA[PORT] INDEX", "move a key to an index of an HCA's P_Key\ntable",
           read_pkey},
    Change{
        "cable", "END [END] up|down|flap|stall|SETTING...",
        "let a cable fail or come up again, or change\nit. END: an HCA, or a switch, with [PORT]\n"
        "if it has several cables (to the other END).\nSETTING: width 1x|2x|4x|8x|12x,\n"
        "speed SDR|DDR|QDR, loss with a percentage,\ndelay with milliseconds, overruns with a\n"
        "number of periods",
        read_cable},
    Change{"switch", "SWITCH present|absent|reset",
           "let a switch lose its power, and start again\nwithout its tables", read_switch},
    Change{"sm", "restart",
           "let the subnet manager forget groups and\nsubscriptions and ask all clients to "
           "register\nagain",
           read_sm},
};

std::string known_changes() {
  std::string names;
  for (const auto& change : kChanges) {
    if (!names.empty()) names += ", ";
    names += change.name;
  }
  return names;
}

std::string usage_of(const Change& change) {
  return "softib set " + std::string(change.name) + ' ' + std::string(change.arguments);
}

}  // namespace

Result<control::Request> parse_change(const std::vector<std::string>& words) {
  if (words.empty()) return Error{EINVAL, "no change is given; changes: " + known_changes()};
  const auto change = std::find_if(kChanges.begin(), kChanges.end(),
                                   [&](const auto& known) { return known.name == words[0]; });
  if (change == kChanges.end()) {
    std::array<std::string_view, kChanges.size()> names;
    std::ranges::transform(kChanges, names.begin(), &Change::name);
    return Error{EINVAL, "unknown change '" + words[0] + "'" +
                             ipoib::program::did_you_mean(words[0], names) +
                             "; changes: " + known_changes()};
  }
  Arguments arguments({words.begin() + 1, words.end()});
  auto request = change->read(arguments);
  if (request) return request;
  return Error{EINVAL, words[0] + ": " + request.error().message + "; usage: " + usage_of(*change)};
}

std::string remark_on_change(const std::vector<std::string>& words) {
  const bool has_pkey = words.size() > 1 && (words[0] == "partition" || words[0] == "pkey");
  return has_pkey ? ipoib::remark_on_pkey(words[1]) : "";
}

std::string changes_help() {
  constexpr std::size_t kColumn = 34;
  std::string out;
  for (const auto& change : kChanges) {
    std::string line = "  " + std::string(change.name) + ' ' + std::string(change.arguments);
    std::string_view help = change.help;
    while (!help.empty()) {
      const auto end = std::min(help.find('\n'), help.size());
      if (line.size() + 1 > kColumn) {
        out += line + '\n';
        line.clear();
      }
      line.resize(kColumn, ' ');
      out += line + std::string(help.substr(0, end)) + '\n';
      line.clear();
      help.remove_prefix(std::min(end + 1, help.size()));
    }
  }
  return out;
}

}  // namespace softib::cli
