// Parses the command line in its two forms: words like ip(8) neigh, options like arp(8).
#include "command.hpp"

#include <getopt.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <string_view>

#include "client.hpp"
#include "program/nearest.hpp"
#include "subcommand.hpp"

namespace ipoib::ibarp {

namespace {

using Verb = Command::Verb;

constexpr const char* kIntroduction = R"(Usage: ibarp [OPTIONS] [COMMAND]
Shows and changes the neighbour entries of the ipoibd interfaces in this
network namespace, and adds and deletes interfaces. Any user may list entries,
groups and interfaces; only root and the group of ipoibd --control-group may
make changes, list members of groups, and see the trace.

Commands, as of ip neigh; they may be abbreviated:
)";
constexpr const char* kArguments = R"(
FILTER is [to] ADDRESS[/BITS], or nud STATE[,STATE]...; see also -4 and -6.
STATE is incomplete, resolving, reachable, stale, delay, probing, failed,
permanent, pinned or all. Only flush with nud deletes permanent entries and pins.
HW is 20 bytes in hexadecimal with colons, or QPN@GID, or qpn QPN gid GID.
LEVEL is trace, debug, info, warning, error, critical or off; MODULE may be all.
Without dev IF a command applies to all interfaces; one that changes an entry
needs dev IF if there are several, and interface add if several ipoibd run.

Options; -a, -s, -d and -f as of arp(8):
  -a, --all [HOST]      show entries in BSD style
  -s, --set HOST HW     set a permanent entry
  -d, --delete HOST     delete an entry
  -f, --file FILE       set the entries and pins of a file, see ipoibd(8)
  -i, --device IF       same as dev IF
  -n, --numeric         do not resolve host names (with -a, -s and -d)
  -4, --ipv4            show and flush: only IPv4
  -6, --ipv6            show and flush: only IPv6
  -j, --json            print JSON
  -w, --wide            show and groups: all columns
  -z, --zeros           stats: include counters that are zero
  -m, --members         groups: print a line for each member
  --output FILE         metrics and save: replace FILE in one step instead of
                        printing; bugreport: create FILE; -: standard output
  --serve [ADDRESS:]PORT  metrics: serve them over HTTP until a signal; without
                        ADDRESS to this host only
  --password-file FILE  with --serve: clients need the password in FILE
  -t, --timestamp       monitor: print the time before each change
  --tshort              monitor: the same in short form, also -ts
  --timeout SECONDS     wait: how long (default without limit)
  --interval SECONDS    top, probe, and monitor stats: time between two (default 1)
  --from ADDRESS        explain: packets that come from there
  --count N             top and probe: end after so many times; capture: packets
  --neighbour ADDRESS   capture: only packets from and to this neighbour, and about
                        its address
  -C, --file-size N     capture: end when the file has N million bytes
  -W, --files N         capture with -C: go on in the next of N files, FILE0, FILE1
                        and so on, replacing the oldest
  --sort KEY            top: by rate, address, state, idle or uses
  -c, --color[=WHEN]    always, auto or never (default auto: if standard output
                        is a terminal and NO_COLOR is not set); -c: always
  -b, --batch FILE      run the commands in FILE, one on a line; -: standard input
  --force               with --batch: go on after a command that fails
  -h, --help            print this text
  -V, --version         print the version

Exit status: 0 success, 1 failed or refused, 2 wrong command, option or value.
)";

// Options that have no letter.
constexpr int kForce = 1;
constexpr int kOutput = 2;
constexpr int kServe = 3;
constexpr int kPasswordFile = kLastWithoutLetter + 1;
constexpr int kFrom = kPasswordFile + 1;
constexpr int kNeighbour = kFrom + 1;

constexpr std::array<option, 32> kOptions{
    {{"all", no_argument, nullptr, 'a'},
     {"set", required_argument, nullptr, 's'},
     {"delete", required_argument, nullptr, 'd'},
     {"file", required_argument, nullptr, 'f'},
     {"device", required_argument, nullptr, 'i'},
     {"numeric", no_argument, nullptr, 'n'},
     {"ipv4", no_argument, nullptr, '4'},
     {"ipv6", no_argument, nullptr, '6'},
     {"json", no_argument, nullptr, 'j'},
     {"zeros", no_argument, nullptr, 'z'},
     {"members", no_argument, nullptr, 'm'},
     {"wide", no_argument, nullptr, 'w'},
     {"batch", required_argument, nullptr, 'b'},
     {"force", no_argument, nullptr, kForce},
     {"output", required_argument, nullptr, kOutput},
     {"serve", required_argument, nullptr, kServe},
     {"password-file", required_argument, nullptr, kPasswordFile},
     {"timestamp", no_argument, nullptr, 't'},
     {"tshort", no_argument, nullptr, kShortStamp},
     {"timeout", required_argument, nullptr, kTimeout},
     {"interval", required_argument, nullptr, kInterval},
     {"count", required_argument, nullptr, kCount},
     {"sort", required_argument, nullptr, kSort},
     {"color", optional_argument, nullptr, 'c'},
     {"c", optional_argument, nullptr, 'c'},
     {"from", required_argument, nullptr, kFrom},
     {"neighbour", required_argument, nullptr, kNeighbour},
     {"file-size", required_argument, nullptr, 'C'},
     {"files", required_argument, nullptr, 'W'},
     {"help", no_argument, nullptr, 'h'},
     {"version", no_argument, nullptr, 'V'},
     {nullptr, 0, nullptr, 0}}};
constexpr const char* kLetters = ":as:d:f:i:n46jzmwtcb:C:W:hV";

/// The option that getopt_long_only has just rejected.
std::string option_name(char** argv) {
  return optopt > kNeighbour ? std::string("-") + static_cast<char>(optopt) : argv[optind - 1];
}

std::string why_rejected(char** argv) {
  const std::string word = argv[optind - 1];
  // getopt_long_only sets optopt to the letter of a long option that takes no argument.
  const bool is_known = optopt != 0 && word.find('=') != std::string::npos;
  if (is_known) return "the option " + word + " takes no argument";
  std::vector<std::string> options;
  for (const option& each : kOptions) {
    if (each.name != nullptr) options.push_back(std::string("--") + each.name);
  }
  const std::vector<std::string_view> names(options.begin(), options.end());
  return "the option " + option_name(argv) + " is unknown" + program::did_you_mean(word, names);
}

ColorMode parse_color(const char* word) {
  const std::string_view when = word == nullptr ? "always" : word;
  if (when == "always") return ColorMode::always;
  if (when == "auto") return ColorMode::automatic;
  if (when == "never") return ColorMode::never;
  throw Failure(kUsage, "--color is always, auto or never");
}

void set_family(ibarp_filter& filter, int family) {
  if (filter.family != 0 && filter.family != family) misused("use only one of -4 and -6");
  filter.family = family;
}

/// What an option sets to its argument, and does nothing else; null for the others.
std::string* text_of_option(Command& command, int letter) {
  switch (letter) {
    case 'i':
      return &command.device;
    case 'b':
      return &command.batch;
    case kFrom:
      return &command.from;
    case kNeighbour:
      return &command.neighbour;
    case kOutput:
      return &command.output;
    case kServe:
      return &command.serve;
    case kPasswordFile:
      return &command.password_file;
    default:
      return nullptr;
  }
}

/// A number from 1 to `most`.
template <class Number>
Number parse_positive(const char* what, std::string_view word, Number most) {
  Number number = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, number);
  if (error == std::errc() && rest == end && number > 0 && number <= most) return number;
  throw Failure(kUsage, std::string(what) + " is a number from 1 to " + std::to_string(most));
}

/// Options that limit the files of a capture.
void apply_to_ring(program::OutputRing::Limits& ring, int letter) {
  constexpr std::uint64_t kMillion = 1'000'000;
  if (letter == 'C') {
    ring.file_size = kMillion * parse_positive("--file-size", optarg, kMillion);
  } else if (letter == 'W') {
    ring.files = parse_positive("--files", optarg, program::OutputRing::kMaxFiles);
  }
}

/// Options that say what is printed, and how.
void apply_to_output(Command& command, int letter) {
  switch (letter) {
    case '4':
    case '6':
      set_family(command.filter, letter == '4' ? AF_INET : AF_INET6);
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
    case 'c':
      command.color = parse_color(optarg);
      break;
    default:
      break;
  }
}

void apply(Command& command, int letter) {
  if (auto* const text = text_of_option(command, letter)) *text = optarg;
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
    case 'f':
      command.verb = Verb::load;
      command.file = optarg;
      break;
    case kForce:
      command.force = true;
      break;
    case 'h':
    case 'V':
      command.verb = letter == 'h' ? Verb::help : Verb::version;
      break;
    default:
      apply_to_output(command, letter);
      apply_to_ring(command.ring, letter);
      apply_watch_option(command.watch, letter, optarg);
      break;
  }
}

Command parse_arp_words(Command command, std::vector<std::string> words, bool names) {
  command.names = names;
  if (command.verb == Verb::replace) take_link_layer(command, words);
  if (command.verb == Verb::show && !words.empty()) {
    command.host = words.front();
    words.erase(words.begin());
  }
  if (!words.empty()) misused("\"" + words.front() + "\" is not expected here");
  if (!command.host.empty()) command.address = resolve(command.host, command.names);
  return command;
}

}  // namespace

void check_metrics(const Command& command) {
  const bool is_metrics = command.verb == Verb::metrics;
  const bool is_text = is_metrics || command.verb == Verb::save || command.verb == Verb::bug_report;
  if (!is_text && !command.output.empty()) {
    misused("--output is for metrics, save and bugreport only");
  }
  if (!is_metrics && !command.serve.empty()) misused("--serve is for metrics only");
  if (command.serve.empty() && !command.password_file.empty()) {
    misused("--password-file has no effect without --serve");
  }
  if (!command.output.empty() && !command.serve.empty()) {
    misused("use only one of --output and --serve");
  }
  if (command.output.starts_with("--")) {
    misused("--output needs a file; one whose name begins with -- is ./" + command.output);
  }
  if (is_text && command.json) misused("metrics, save and bugreport do not print JSON");
}

void check_capture(const Command& command) {
  const auto& ring = command.ring;
  if (command.verb != Verb::capture) {
    if (!command.neighbour.empty() || ring.file_size != 0 || ring.files != 1) {
      misused("--neighbour, -C and -W are for capture only");
    }
    return;
  }
  if (ring.files != 1 && ring.file_size == 0) misused("-W needs -C, the size of each file");
  if (ring.files != 1 && command.file == "-") misused("-W needs a file, not the standard output");
}

void misused(const std::string& what) { throw Failure(kUsage, what + " (see ibarp --help)"); }

Command parse_command(int argc, char** argv) {
  Command command;
  command.width = table::output_width();
  bool arp_spelling = false;
  bool numeric = false;
  opterr = 0;
  // As in ip(8), one hyphen suffices before a long option.
  for (int letter = 0;
       (letter = getopt_long_only(argc, argv, kLetters, kOptions.data(), nullptr)) != -1;) {
    if (letter == 'a' || letter == 's' || letter == 'd' || letter == 'f') {
      if (arp_spelling) misused("use only one of -a, -s, -d and -f");
      arp_spelling = true;
    }
    if (letter == 'n') numeric = true;
    if (letter == ':') misused("the option " + option_name(argv) + " needs an argument");
    if (letter == '?') misused(why_rejected(argv));
    apply(command, letter);
    if (command.verb == Verb::help || command.verb == Verb::version) return command;
  }
  const std::vector<std::string> words(argv + optind, argv + argc);
  if (!command.batch.empty()) {
    if (arp_spelling || !words.empty()) misused("--batch takes its commands from a file only");
    command.verb = Verb::batch;
    check_metrics(command);
    return command;
  }
  if (command.force) misused("--force is for --batch only");
  command = arp_spelling ? parse_arp_words(command, words, !numeric) : parse_words(command, words);
  check_metrics(command);
  check_capture(command);
  check_watch_options(command);
  return command;
}

std::string help_text() {
  std::string text = kIntroduction;
  for (const Subcommand& each : subcommands()) text += each.help;
  return text + kArguments;
}

}  // namespace ipoib::ibarp
