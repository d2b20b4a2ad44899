// Parses commands in words, as of ip(8) neigh.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "client.hpp"
#include "command.hpp"
#include "table/nearest.hpp"

namespace ipoib::cli {

namespace {

using Verb = Command::Verb;
using Words = std::vector<std::string>;

struct Name {
  std::string_view text;
  Verb verb;
};
/// An abbreviation stands for the first of these that it begins, as in ip(8).
constexpr std::array<Name, 29> kVerbs{{{"show", Verb::show},
                                       {"list", Verb::show},
                                       {"ls", Verb::show},
                                       {"get", Verb::get},
                                       {"add", Verb::add},
                                       {"change", Verb::change},
                                       {"chg", Verb::change},
                                       {"replace", Verb::replace},
                                       {"repl", Verb::replace},
                                       {"delete", Verb::remove},
                                       {"flush", Verb::flush},
                                       {"stats", Verb::stats},
                                       {"log", Verb::log},
                                       {"trace", Verb::trace},
                                       {"info", Verb::info},
                                       {"groups", Verb::groups},
                                       {"stations", Verb::stations},
                                       {"interface", Verb::interfaces},
                                       {"metrics", Verb::metrics},
                                       {"monitor", Verb::monitor},
                                       {"wait", Verb::wait},
                                       {"top", Verb::top},
                                       {"failover", Verb::failover},
                                       {"help", Verb::help},
                                       {"check", Verb::check},
                                       {"explain", Verb::explain},
                                       {"probe", Verb::probe},
                                       {"save", Verb::save},
                                       {"bugreport", Verb::bug_report}}};
struct Topic {
  std::string_view text;
  std::uint32_t bits;
};
/// What follows "monitor".
constexpr std::array<Topic, 7> kTopics{
    {{"neighbours", IBARP_NEIGHBOURS},
     {"neighbors", IBARP_NEIGHBOURS},
     {"link", IBARP_LINK},
     {"groups", IBARP_GROUPS},
     {"stats", IBARP_STATS},  // before "stations", so that its abbreviations remain
     {"stations", IBARP_STATIONS},
     {"all", IBARP_NEIGHBOURS | IBARP_LINK | IBARP_GROUPS | IBARP_STATIONS | IBARP_STATS}}};
/// What follows "interface".
constexpr std::array<Name, 6> kInterfaceVerbs{{{"show", Verb::interfaces},
                                               {"list", Verb::interfaces},
                                               {"ls", Verb::interfaces},
                                               {"add", Verb::add_interface},
                                               {"replace", Verb::add_interface},
                                               {"delete", Verb::delete_interface}}};
constexpr std::string_view kAllStates =
    "incomplete,resolving,reachable,stale,delay,probing,failed,permanent,pinned";
static_assert(kAllStates.size() < IBARP_TEXT_SIZE);

std::string take(Words& words, const char* expected) {
  if (words.empty()) misused(std::string("the command line ends, expected ") + expected);
  std::string word = std::move(words.front());
  words.erase(words.begin());
  return word;
}

/// Removes a command at the front of `words`; nullptr if there is none of that name.
template <class Names>
const Name* take_name(Words& words, const Names& names) {
  const std::string& word = words.front();
  const auto found = std::find_if(names.begin(), names.end(), [&](const Name& each) {
    return !word.empty() && each.text.substr(0, word.size()) == word;
  });
  if (found == names.end()) return nullptr;
  words.erase(words.begin());
  return &*found;
}

void take_level(Command& command, const std::string& word) {
  const auto equals = word.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == word.size()) {
    misused("\"" + word + "\" is not MODULE=LEVEL");
  }
  command.levels.emplace_back(word.substr(0, equals), word.substr(equals + 1));
}

void take_states(ibarp_filter& filter, const std::string& word) {
  std::string states = filter.states;
  if (!states.empty()) states += ',';
  states += word == "all" ? kAllStates : word;
  if (states.size() >= sizeof(filter.states)) misused("too many states");
  *std::copy(states.begin(), states.end(), filter.states) = '\0';
}

bool is_prefix(const std::string& word) {
  ibarp_address address{};
  std::uint32_t length = 0;
  return ibarp_parse_prefix(word.c_str(), &address, &length) == 0;
}

void take_prefix(Command& command, const std::string& word) {
  auto& filter = command.filter;
  if (filter.prefix.family != 0) misused("\"" + word + "\" is not expected here");
  if (ibarp_parse_prefix(word.c_str(), &filter.prefix, &filter.prefix_length) != 0) {
    throw Failure(kUsage, "\"" + word + "\" is not an IP address or prefix");
  }
  // A single address is looked up; see look_up().
  if (word.find('/') == std::string::npos && command.verb == Verb::show) command.host = word;
}

/// Parses an argument of show and flush.
void take_filter(Command& command, const std::string& word, Words& words) {
  if (word == "nud" || word == "state") {
    take_states(command.filter, take(words, "a state"));
  } else if (word == "to") {
    take_prefix(command, take(words, "an address or prefix"));
  } else if (word != "all" || command.verb != Verb::flush) {
    take_prefix(command, word);
  }
}

/// Parses an argument of add, change, replace, delete and get.
void take_entry(Command& command, const std::string& word, Words& words, bool& has_hardware) {
  const bool sets = command.is_change() && command.verb != Verb::remove;
  if (sets && has_hardware && (word == "lladdr" || word == "gid")) {
    misused("give either \"lladdr\" or \"gid\", once");
  }
  if (sets && word == "lladdr") {
    command.to = take_hardware(words);
    has_hardware = true;
  } else if (sets && word == "gid") {
    words.insert(words.begin(), word);
    take_link_layer(command, words);
    has_hardware = true;
  } else if (sets && word == "nud") {
    if (take(words, "a state") != "permanent")
      misused("the only state that can be set is permanent");
  } else if (command.host.empty()) {
    command.host = word == "to" ? take(words, "an address") : word;
  } else {
    misused("\"" + word + "\" is not expected here");
  }
}

std::uint16_t parse_pkey(const std::string& word) {
  const bool hexadecimal = word.rfind("0x", 0) == 0 || word.rfind("0X", 0) == 0;
  const char* const begin = word.data() + (hexadecimal ? 2 : 0);
  const char* const end = word.data() + word.size();
  std::uint16_t pkey = 0;
  const auto [rest, error] = std::from_chars(begin, end, pkey, hexadecimal ? 16 : 10);
  if (error != std::errc() || rest != end || (pkey & 0x7fffU) == 0) {
    throw Failure(kUsage, "\"" + word +
                              "\" is no P_Key; expected 0x0001 to 0x7fff, with or without the "
                              "membership bit 0x8000; hexadecimal numbers need 0x");
  }
  return pkey;
}

/// Parses what follows "interface".
void take_interface_arguments(Command& command, Words& words) {
  if (const auto* const verb = words.empty() ? nullptr : take_name(words, kInterfaceVerbs)) {
    command.verb = verb->verb;
    command.may_exist = verb->text == "replace";
  }
  const bool adds = command.verb == Verb::add_interface;
  bool has_pkey = false;
  while (!words.empty()) {
    const std::string word = take(words, "an argument");
    if (word == "dev") {
      command.device = take(words, "an interface");
    } else if (adds && word == "name" && command.name.empty()) {
      command.name = take(words, "a name");
    } else if (adds && !has_pkey) {
      command.pkey = parse_pkey(word);
      has_pkey = true;
    } else if (command.verb == Verb::delete_interface && command.device.empty()) {
      command.device = word;
    } else {
      misused("\"" + word + "\" is not expected here");
    }
  }
  if (adds && !has_pkey) misused("a P_Key is required");
  if (command.verb == Verb::delete_interface && command.device.empty()) {
    misused("an interface is required");
  }
}

/// Parses an argument of monitor.
void take_topic(Command& command, const std::string& word) {
  const auto* const found = std::ranges::find_if(
      kTopics, [&](const Topic& each) { return !word.empty() && each.text.starts_with(word); });
  if (found == kTopics.end()) misused("\"" + word + "\" is no topic");
  command.watch.topics |= found->bits;
}

/// Parses what follows "wait".
void take_condition(Command& command, Words& words) {
  const std::string word = take(words, "\"up\" or \"down\"");
  if (word != "up" && word != "down") misused("\"" + word + "\" is neither \"up\" nor \"down\"");
  command.watch.until_up = word == "up";
}

/// Parses "DEVICE:PORT", an argument of failover.
void take_port(Command& command, const std::string& word) {
  const auto colon = word.rfind(':');
  const auto number = colon == std::string::npos ? std::string() : word.substr(colon + 1);
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), command.to_port);
  const bool is_number = error == std::errc() && end == number.data() + number.size();
  if (!command.to_device.empty() || colon == 0 || !is_number || command.to_port == 0 ||
      command.to_port > UINT8_MAX) {
    misused("\"" + word + "\" is not DEVICE:PORT");
  }
  command.to_device = word.substr(0, colon);
}

/// Parses what follows a verb.
void take_arguments(Command& command, Words& words) {
  const bool about_entry = command.is_change() || command.verb == Verb::get ||
                           command.verb == Verb::explain || command.verb == Verb::probe;
  bool has_hardware = false;
  if (command.verb == Verb::wait) take_condition(command, words);
  while (!words.empty()) {
    const std::string word = take(words, "an argument");
    if (word == "dev") {
      command.device = take(words, "an interface");
    } else if (command.verb == Verb::monitor) {
      take_topic(command, word);
    } else if (command.verb == Verb::show || command.verb == Verb::flush) {
      take_filter(command, word, words);
    } else if (about_entry) {
      take_entry(command, word, words, has_hardware);
    } else if (command.verb == Verb::log) {
      take_level(command, word);
    } else if (command.verb == Verb::failover) {
      take_port(command, word);
    } else {
      misused("\"" + word + "\" is not expected here");
    }
  }
  if (!command.from.empty()) {
    if (command.verb != Verb::explain) misused("--from is for explain only");
    if (!command.host.empty()) misused("use either --from or the address that packets go to");
    command.host = command.from;
  }
  if (about_entry && command.host.empty()) misused("an address is required");
  if (command.is_change() && command.verb != Verb::remove && !has_hardware) {
    misused("\"lladdr HW\" or \"gid GID\" is required");
  }
}

/// The verb may be left out before the arguments of show.
bool begins_show(const std::string& word) {
  return word == "dev" || word == "to" || word == "nud" || word == "state" || is_prefix(word);
}

}  // namespace

ibarp_hardware take_hardware(std::vector<std::string>& words) {
  std::string text = take(words, "a link-layer address");
  if (text == "qpn") {
    const std::string qpn = take(words, "a queue pair number");
    if (take(words, "\"gid\"") != "gid") misused("\"qpn QPN\" must be followed by \"gid GID\"");
    text = qpn + "@" + take(words, "a GID");
  }
  ibarp_hardware hardware{};
  if (ibarp_parse_hardware(text.c_str(), &hardware) != 0) {
    throw Failure(kUsage, "\"" + text +
                              "\" is no link-layer address; expected 20 bytes in hexadecimal "
                              "with colons, or QPN@GID");
  }
  return hardware;
}

void take_link_layer(Command& command, std::vector<std::string>& words) {
  if (words.empty() || words.front() != "gid") {
    command.to = take_hardware(words);
    return;
  }
  (void)take(words, "\"gid\"");
  const std::string text = take(words, "a GID");
  ibarp_address gid{};
  if (ibarp_parse_address(text.c_str(), &gid) != 0 || gid.family != AF_INET6) {
    throw Failure(kUsage, "\"" + text + "\" is no GID; expected the format of an IPv6 address");
  }
  std::copy_n(gid.bytes, sizeof(command.to.gid), command.to.gid);
  command.pins = true;
}

Command parse_words(const Command& options, const std::vector<std::string>& words) {
  Command command = options;
  Words left = words;
  if (!left.empty() && !begins_show(left.front())) {
    const Name* const found = take_name(left, kVerbs);
    if (found == nullptr) {
      std::vector<std::string_view> names;
      for (const Name& each : kVerbs) names.push_back(each.text);
      misused("the command \"" + left.front() + "\" is unknown" +
              table::did_you_mean(left.front(), names));
    }
    command.verb = found->verb;
  }
  if (command.verb == Verb::interfaces) {
    take_interface_arguments(command, left);
  } else {
    take_arguments(command, left);
  }
  if (!command.host.empty()) command.address = resolve(command.host, false);
  return command;
}

}  // namespace ipoib::cli
