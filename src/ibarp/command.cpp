// Parses the command line in its two forms: words like ip(8) neigh, options like arp(8).
#include "command.hpp"

#include <getopt.h>

#include <algorithm>
#include <array>
#include <deque>

namespace ipoib::cli {

namespace {

using Verb = Command::Verb;

struct Word {
  const char* text;
  Verb verb;
};
constexpr std::array<Word, 18> kVerbs{{{"show", Verb::show},
                                       {"list", Verb::show},
                                       {"ls", Verb::show},
                                       {"get", Verb::get},
                                       {"add", Verb::add},
                                       {"change", Verb::change},
                                       {"chg", Verb::change},
                                       {"replace", Verb::replace},
                                       {"repl", Verb::replace},
                                       {"del", Verb::remove},
                                       {"delete", Verb::remove},
                                       {"flush", Verb::flush},
                                       {"stats", Verb::stats},
                                       {"log", Verb::log},
                                       {"trace", Verb::trace},
                                       {"info", Verb::info},
                                       {"groups", Verb::groups},
                                       {"help", Verb::help}}};

constexpr std::array<option, 12> kOptions{{{"all", no_argument, nullptr, 'a'},
                                           {"set", required_argument, nullptr, 's'},
                                           {"delete", required_argument, nullptr, 'd'},
                                           {"device", required_argument, nullptr, 'i'},
                                           {"numeric", no_argument, nullptr, 'n'},
                                           {"json", no_argument, nullptr, 'j'},
                                           {"zeros", no_argument, nullptr, 'z'},
                                           {"members", no_argument, nullptr, 'm'},
                                           {"wide", no_argument, nullptr, 'w'},
                                           {"help", no_argument, nullptr, 'h'},
                                           {"version", no_argument, nullptr, 'V'},
                                           {nullptr, 0, nullptr, 0}}};
constexpr const char* kLetters = ":as:d:i:njzmwhV";

[[noreturn]] void misused(const std::string& what) {
  throw Failure(kUsage, what + "; see ibarp --help");
}

/// The option that getopt_long has just rejected.
std::string option_name(char** argv) {
  return optopt != 0 ? std::string("-") + static_cast<char>(optopt) : argv[optind - 1];
}

/// The arguments that are not options, consumed in order.
class Words {
 public:
  Words(char** begin, char** end) : words_(begin, end) {}

  [[nodiscard]] bool empty() const { return words_.empty(); }
  [[nodiscard]] const std::string& front() const { return words_.front(); }
  std::string take(const char* expected) {
    if (words_.empty()) misused(std::string("the command line ends, expected ") + expected);
    std::string word = std::move(words_.front());
    words_.pop_front();
    return word;
  }

 private:
  std::deque<std::string> words_;
};

/// Parses HW: 20 bytes, QPN@GID, or the words "qpn QPN gid GID".
ibarp_hardware take_hardware(Words& words) {
  std::string text = words.take("a link-layer address");
  if (text == "qpn") {
    const std::string qpn = words.take("a queue pair number");
    if (words.take("\"gid\"") != "gid") misused("\"qpn QPN\" must be followed by \"gid GID\"");
    text = qpn + "@" + words.take("a GID");
  }
  ibarp_hardware hardware{};
  if (ibarp_parse_hardware(text.c_str(), &hardware) != 0) {
    throw Failure(kUsage, "\"" + text +
                              "\" is no link-layer address; expected 20 bytes in hexadecimal "
                              "with colons, or QPN@GID");
  }
  return hardware;
}

void take_level(Command& command, const std::string& word) {
  const auto equals = word.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == word.size()) {
    misused("\"" + word + "\" is not MODULE=LEVEL");
  }
  command.levels.emplace_back(word.substr(0, equals), word.substr(equals + 1));
}

/// Parses what follows a verb: an address if the verb takes one, then keywords with values.
void take_arguments(Command& command, Words& words) {
  const bool sets = command.is_change() && command.verb != Verb::remove;
  const bool has_host =
      command.is_change() || command.verb == Verb::show || command.verb == Verb::get;
  bool has_hardware = false;
  while (!words.empty()) {
    const std::string word = words.take("an argument");
    if (word == "dev") {
      command.device = words.take("an interface");
    } else if (sets && word == "lladdr") {
      command.to = take_hardware(words);
      has_hardware = true;
    } else if (sets && word == "nud") {
      if (words.take("a state") != "permanent")
        misused("the only state that can be set is permanent");
    } else if (command.verb == Verb::log) {
      take_level(command, word);
    } else if (has_host && word == "to") {
      command.host = words.take("an address");
    } else if (has_host && command.host.empty()) {
      command.host = word;
    } else {
      misused("\"" + word + "\" is not expected here");
    }
  }
  const bool needs_host = command.is_change() || command.verb == Verb::get;
  if (needs_host && command.host.empty()) misused("an address is required");
  if (sets && !has_hardware) misused("\"lladdr HW\" is required");
}

void take_words(Command& command, Words& words) {
  if (words.empty()) return;
  const auto* const found = std::find_if(
      kVerbs.begin(), kVerbs.end(), [&](const Word& each) { return words.front() == each.text; });
  if (found == kVerbs.end()) {
    // "show" may be left out.
    ibarp_address address{};
    if (words.front() != "dev" && ibarp_parse_address(words.front().c_str(), &address) != 0) {
      misused("the command \"" + words.front() + "\" is unknown");
    }
  } else {
    command.verb = found->verb;
    words.take("a command");
  }
  take_arguments(command, words);
}

void take_arp_words(Command& command, Words& words) {
  if (command.verb == Verb::replace) command.to = take_hardware(words);
  if (command.verb == Verb::show && !words.empty()) command.host = words.take("a host");
  if (!words.empty()) misused("\"" + words.front() + "\" is not expected here");
}

void apply(Command& command, int letter) {
  switch (letter) {
    case 'a':
      command.bsd = true;
      break;
    case 's':
      command.verb = Verb::replace;
      command.host = optarg;
      break;
    case 'd':
      command.verb = Verb::remove;
      command.host = optarg;
      break;
    case 'i':
      command.device = optarg;
      break;
    case 'j':
      command.json = true;
      break;
    case 'z':
      command.zeros = true;
      break;
    case 'm':
      command.members = true;
      break;
    case 'w':
      command.wide = true;
      break;
    case 'h':
      command.verb = Verb::help;
      break;
    case 'V':
      command.verb = Verb::version;
      break;
    default:
      break;
  }
}

}  // namespace

Command parse_command(int argc, char** argv) {
  Command command;
  bool arp_spelling = false;
  bool numeric = false;
  opterr = 0;
  for (int letter = 0;
       (letter = getopt_long(argc, argv, kLetters, kOptions.data(), nullptr)) != -1;) {
    if (letter == 'a' || letter == 's' || letter == 'd') {
      if (arp_spelling) misused("use only one of -a, -s and -d");
      arp_spelling = true;
    }
    if (letter == 'n') numeric = true;
    if (letter == ':') misused("the option " + option_name(argv) + " needs an argument");
    if (letter == '?') misused("the option " + option_name(argv) + " is unknown");
    apply(command, letter);
    if (command.verb == Verb::help || command.verb == Verb::version) return command;
  }
  Words words(argv + optind, argv + argc);
  command.names = arp_spelling && !numeric;
  if (arp_spelling) {
    take_arp_words(command, words);
  } else {
    take_words(command, words);
  }
  return command;
}

const char* help_text() {
  return R"(Usage: ibarp [OPTIONS] [COMMAND]
Shows and changes the neighbour entries of the ipoibd interfaces in this
network namespace. Any user may list entries and groups; only root may make
changes and list the members of groups.

Commands, as of ip neigh:
  show [ADDRESS] [dev IF]           list all entries, or one (default command)
  get ADDRESS [dev IF]              show one entry; fail if there is none
  add ADDRESS lladdr HW [dev IF]    add a permanent entry; fail if one exists
  change ADDRESS lladdr HW [dev IF] replace an existing entry by a permanent one
  replace ADDRESS lladdr HW [dev IF]  add or replace a permanent entry
  del ADDRESS [dev IF]              delete an entry
  flush [dev IF]                    delete all entries except permanent ones
  stats [dev IF]                    show counters, and drops by reason
  log [MODULE=LEVEL]... [dev IF]    show or set log levels
  trace [dev IF]                    show the last events of the daemon's threads
  info [dev IF]                     show the interface and its state
  groups [-m] [dev IF]              show multicast groups and, for root, their
                                    members
  help                              print this text

HW is 20 bytes in hexadecimal with colons, or QPN@GID, or qpn QPN gid GID.
LEVEL is trace, debug, info, warning, error, critical or off; MODULE may be all.
Without dev IF a command applies to all interfaces; one that changes an entry
needs dev IF if there are several.

Options; -a, -s and -d as of arp(8):
  -a, --all [HOST]      show entries in BSD style
  -s, --set HOST HW     set a permanent entry
  -d, --delete HOST     delete an entry
  -i, --device IF       same as dev IF
  -n, --numeric         do not resolve host names (with -a, -s and -d)
  -j, --json            print JSON
  -w, --wide            show and groups: all columns
  -z, --zeros           stats: include counters that are zero
  -m, --members         groups: print a line for each member
  -h, --help            print this text
  -V, --version         print the version

Exit status: 0 success, 1 failed or refused, 2 wrong command, option or value.
)";
}

}  // namespace ipoib::cli
