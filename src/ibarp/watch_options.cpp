// Parses the options of monitor, wait and top.
#include "watch_options.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <string_view>

#include "command.hpp"

namespace ipoib::ibarp {

namespace {

constexpr double kLongestWait = 1e6;       // seconds
constexpr double kLongestInterval = 3600;  // seconds, as of ibarp_subscribe()

std::chrono::milliseconds parse_seconds(const char* what, std::string_view word, double least,
                                        double most) {
  double seconds = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, seconds);
  if (error != std::errc() || rest != end || !(seconds >= least) || !(seconds <= most)) {
    std::array<char, 96> text{};
    std::snprintf(text.data(), text.size(), "%s is a number of seconds from %g to %.7g", what,
                  least, most);
    throw Failure(kUsage, text.data());
  }
  return std::chrono::round<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
}

std::uint32_t parse_count(std::string_view word) {
  std::uint32_t count = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, count);
  if (error != std::errc() || rest != end || count == 0) {
    throw Failure(kUsage, "--count is a positive number");
  }
  return count;
}

WatchOptions::Sort parse_sort(std::string_view word) {
  for (const auto& [name, sort] : kSortNames) {
    if (name == word) return sort;
  }
  throw Failure(kUsage, "--sort is rate, address, state, idle or uses");
}

}  // namespace

void apply_watch_option(WatchOptions& watch, int letter, const char* argument) {
  switch (letter) {
    case 't':
      watch.stamp = WatchOptions::Stamp::line;
      break;
    case kShortStamp:
      watch.stamp = WatchOptions::Stamp::brief;
      break;
    case kTimeout:
      watch.timeout = parse_seconds("--timeout", argument, 0, kLongestWait);
      break;
    case kInterval:
      watch.interval = parse_seconds("--interval", argument, 0.1, kLongestInterval);
      break;
    case kCount:
      watch.count = parse_count(argument);
      break;
    case kSort:
      watch.sort = parse_sort(argument);
      break;
    default:
      break;
  }
}

void check_watch_options(const Command& command) {
  const WatchOptions& watch = command.watch;
  using Verb = Command::Verb;
  const Verb verb = command.verb;
  const auto only_for = [](bool is_given, bool is_right, const char* what) {
    if (is_given && !is_right) misused(what);
  };
  only_for(watch.stamp != WatchOptions::Stamp::none, verb == Verb::monitor,
           "-t and -ts are for monitor only");
  only_for(watch.timeout.has_value(), verb == Verb::wait, "--timeout is for wait only");
  only_for(watch.interval.has_value(),
           verb == Verb::monitor || verb == Verb::top || verb == Verb::probe,
           "--interval is for monitor, probe and top only");
  only_for(watch.count.has_value(),
           verb == Verb::top || verb == Verb::probe || verb == Verb::capture,
           "--count is for capture, probe and top only");
  only_for(watch.sort.has_value(), verb == Verb::top, "--sort is for top only");
}

}  // namespace ipoib::ibarp
