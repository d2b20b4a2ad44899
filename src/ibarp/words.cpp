#include "words.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "client.hpp"
#include "program/nearest.hpp"
#include "subcommand.hpp"

namespace ipoib::ibarp {

namespace {

using Verb = Command::Verb;
using Words = std::vector<std::string>;

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
struct InterfaceVerb {
  std::string_view text;
  Verb verb;
};
/// What follows "interface".
constexpr std::array<InterfaceVerb, 6> kInterfaceVerbs{{{"show", Verb::interfaces},
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

/// Calls `take(word)` for each argument other than "dev IF".
template <class Take>
void for_each_argument(Command& command, Words& words, Take take_one) {
  while (!words.empty()) {
    const std::string word = take(words, "an argument");
    if (word == "dev") {
      command.device = take(words, "an interface");
    } else {
      take_one(word);
    }
  }
}

[[noreturn]] void not_expected(const std::string& word) {
  misused("\"" + word + "\" is not expected here");
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
  if (filter.prefix.family != 0) not_expected(word);
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
void take_part_of_entry(Command& command, const std::string& word, Words& words,
                        bool& has_hardware) {
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
    not_expected(word);
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

/// Parses an argument of monitor.
void take_topic(Command& command, const std::string& word) {
  const auto* const found = std::ranges::find_if(
      kTopics, [&](const Topic& each) { return !word.empty() && each.text.starts_with(word); });
  if (found == kTopics.end()) {
    std::string all;
    for (const auto& each : kTopics) all += (all.empty() ? "" : ", ") + std::string(each.text);
    misused("\"" + word + "\" is no topic; topics are " + all);
  }
  command.watch.topics |= found->bits;
}

/// Parses "DEVICE:PORT", an argument of failover.
void take_port_name(Command& command, const std::string& word) {
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

/// The verb may be left out before the arguments of show.
bool begins_show(const std::string& word) {
  return word == "dev" || word == "to" || word == "nud" || word == "state" || is_prefix(word);
}

}  // namespace

void take_nothing(Command& command, Words& words) {
  for_each_argument(command, words, not_expected);
}

void take_filters(Command& command, Words& words) {
  for_each_argument(command, words,
                    [&](const std::string& word) { take_filter(command, word, words); });
}

void take_entry(Command& command, Words& words) {
  bool has_hardware = false;
  for_each_argument(command, words, [&](const std::string& word) {
    take_part_of_entry(command, word, words, has_hardware);
  });
  if (!command.from.empty()) {
    if (!command.host.empty()) misused("use either --from or the address that packets go to");
    command.host = command.from;
  }
  if (command.host.empty()) misused("an address is required");
  if (command.is_change() && command.verb != Verb::remove && !has_hardware) {
    misused("\"lladdr HW\" or \"gid GID\" is required");
  }
}

void take_levels(Command& command, Words& words) {
  for_each_argument(command, words, [&](const std::string& word) { take_level(command, word); });
}

void take_interface(Command& command, Words& words) {
  const auto* const named = std::ranges::find_if(kInterfaceVerbs, [&](const InterfaceVerb& each) {
    return !words.empty() && !words.front().empty() && each.text.starts_with(words.front());
  });
  if (named != kInterfaceVerbs.end()) {
    command.verb = named->verb;
    command.may_exist = named->text == "replace";
    words.erase(words.begin());
  }
  const bool adds = command.verb == Verb::add_interface;
  const bool deletes = command.verb == Verb::delete_interface;
  for_each_argument(command, words, [&](const std::string& word) {
    if (adds && word == "name" && command.name.empty()) {
      command.name = take(words, "a name");
    } else if (adds && command.pkey == 0) {
      command.pkey = parse_pkey(word);
    } else if (deletes && command.device.empty()) {
      command.device = word;
    } else {
      not_expected(word);
    }
  });
  if (adds && command.pkey == 0) misused("a P_Key is required");
  if (deletes && command.device.empty()) misused("an interface is required");
}

void take_topics(Command& command, Words& words) {
  for_each_argument(command, words, [&](const std::string& word) { take_topic(command, word); });
}

void take_condition(Command& command, Words& words) {
  const std::string word = take(words, "\"up\" or \"down\"");
  if (word != "up" && word != "down") misused("\"" + word + "\" is neither \"up\" nor \"down\"");
  command.watch.until_up = word == "up";
  take_nothing(command, words);
}

/// The option -w, which may stand before FILE as of tcpdump(8), is one without an argument.
void take_file(Command& command, Words& words) {
  for_each_argument(command, words, [&](const std::string& word) {
    if (!command.file.empty()) not_expected(word);
    command.file = word;
  });
  if (command.file.empty()) misused("capture needs a file, or - for the standard output");
}

void take_port(Command& command, Words& words) {
  for_each_argument(command, words,
                    [&](const std::string& word) { take_port_name(command, word); });
}

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
    const Subcommand* const found = find_subcommand(left.front());
    if (found == nullptr) {
      misused("the command \"" + left.front() + "\" is unknown" +
              program::did_you_mean(left.front(), subcommand_names()));
    }
    command.verb = found->verb;
    left.erase(left.begin());
  }
  if (!command.from.empty() && command.verb != Verb::explain) misused("--from is for explain only");
  subcommand_of(command.verb).take(command, left);
  if (!command.host.empty()) command.address = resolve(command.host, false);
  return command;
}

}  // namespace ipoib::ibarp
