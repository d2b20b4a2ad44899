// Large subnets in virtual time, too large for each run of the tests. Prints what
// docs/performance.md has; ends with 1 if a check fails.
#include <sys/resource.h>

#include <boost/program_options.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include "tests/sim/day.hpp"
#include "tests/sim/scale.hpp"

namespace {

using namespace std::chrono_literals;
using namespace ipoib::sim;
using ipoib::Duration;
namespace po = boost::program_options;

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

double processor_time() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

void print_cost() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  std::printf("processor time %.1f s, memory %ld MiB\n", processor_time(), used.ru_maxrss / 1024);
  std::fflush(stdout);
}

void print(const char* what, const SaLoad& load) {
  std::printf("%-28s %10lu requests %10lu MADs %8lu time-outs %9lu path requests\n", what,
              load.requests, load.mads, load.timeouts, load.paths);
  std::fflush(stdout);
}

bool boot(const ScaleOptions& options, Duration spread) {
  Scale subnet(options);
  const ipoib::TimePoint begin = subnet.world.now();
  subnet.boot(spread);
  for (const std::uint32_t percent : {50U, 90U, 99U, 100U}) {
    const bool done = subnet.run_until_up(options.links * percent / 100, 30min);
    std::printf("%3u %% up after %.2f s\n", percent, seconds(subnet.world.now() - begin));
    std::fflush(stdout);
    if (!done) return false;
  }
  print("until all were up", subnet.load());
  std::printf("the SA had no room for %lu MADs\n", subnet.world.sa_overruns);
  print_cost();

  constexpr Duration kIdle = 10min;
  const SaLoad before = subnet.load();
  subnet.world.run_for(kIdle);
  const SaLoad idle = subnet.load() - before;
  print("10 idle minutes after that", idle);
  std::printf("%.1f requests per second\n", static_cast<double>(idle.requests) / seconds(kIdle));
  print_cost();
  return subnet.up() == options.links;
}

/// Lets all pairs exchange a packet, and prints the requests of that.
bool exchange(Scale& subnet, const char* what) {
  const SaLoad before = subnet.load();
  Duration took{};
  const std::size_t failed = subnet.exchange(5min, took).size();
  print(what, subnet.load() - before);
  std::printf("%zu pairs within %.2f s, %zu failed\n", subnet.pairs().size(), seconds(took),
              failed);
  return failed == 0;
}

/// Links on a tree of switches, of which some fail.
bool tree(const ScaleOptions& options, std::uint32_t peers) {
  using softib::subnet::SwitchState;
  Scale subnet(options);
  std::printf("%zu switches\n", std::size_t{subnet.world.subnet().switches().size()});
  print_cost();
  const ipoib::TimePoint begin = subnet.world.now();
  subnet.boot(0s);
  if (!subnet.run_until_up(options.links, 30min)) return false;
  std::printf("all up after %.2f s\n", seconds(subnet.world.now() - begin));
  print("until all were up", subnet.load());
  print_cost();
  subnet.world.run_for(10s);
  subnet.choose_pairs(peers);
  if (!exchange(subnet, "paths")) return false;
  print_cost();

  subnet.set_switch("core-1", SwitchState::absent);
  if (!exchange(subnet, "without a core switch")) return false;
  print_cost();

  // The last one; the SM is at the first free port.
  const std::string leaf =
      "leaf-" + std::to_string(options.switch_ports * options.switch_ports / 2);
  subnet.set_switch(leaf, SwitchState::absent);
  subnet.world.run_for(10s);
  const std::uint32_t left = subnet.up();
  const SaLoad before = subnet.load();
  subnet.set_switch(leaf, SwitchState::present);
  const ipoib::TimePoint again = subnet.world.now();
  if (!subnet.run_until_up(options.links, 10min)) return false;
  std::printf("%u links of a leaf switch up again after %.2f s\n", options.links - left,
              seconds(subnet.world.now() - again));
  print("of these and the others", subnet.load() - before);
  const bool done = exchange(subnet, "all pairs after that");
  print_cost();
  return done && left < options.links;
}

bool pairs(ScaleOptions options) {
  for (const std::uint32_t links : {125U, 250U, 500U, 1000U}) {
    for (const std::uint32_t peers : {1U, 4U, 16U}) {
      options.links = links;
      Scale subnet(options);
      subnet.boot(1s);
      if (!subnet.run_until_up(links, 10min)) return false;
      subnet.world.run_for(5s);
      subnet.choose_pairs(peers);
      const SaLoad before = subnet.load();
      Duration took{};
      if (!subnet.exchange(5min, took).empty()) return false;
      const SaLoad used = subnet.load() - before;
      std::printf("| %u | %u | %zu | %lu | %.3f |\n", links, peers, subnet.connections(),
                  used.paths,
                  static_cast<double>(used.paths) / static_cast<double>(subnet.connections()));
      std::fflush(stdout);
    }
  }
  print_cost();
  return true;
}

/// One link sends to the broadcast group just rarely enough that every other one checks each time.
bool silence(ScaleOptions options) {
  options.link.membership_check = 24h;
  for (const std::uint32_t links : {20U, 125U, 250U, 500U, 1000U}) {
    options.links = links;
    Scale subnet(options);
    subnet.boot(1s);
    if (!subnet.run_until_up(links, 10min)) return false;
    const Duration expected = std::max<Duration>(5s, links * 40ms);
    subnet.world.run_for(2 * expected);
    const SaLoad before = subnet.load();
    constexpr unsigned kRounds = 10;
    const Duration round = expected * 13 / 10;
    std::uint64_t most = 0;
    for (unsigned i = 0; i < kRounds; ++i) {
      subnet.broadcast(i);
      for (Duration done{}; done < round; done += 1s) {
        const std::uint64_t requests = subnet.load().requests;
        subnet.world.run_for(1s);
        most = std::max(most, subnet.load().requests - requests);
      }
    }
    const double rate = static_cast<double>((subnet.load() - before).requests) /
                        (kRounds * std::ceil(seconds(round)));
    std::printf("| %u | %.0f | %.1f | %lu |\n", links, seconds(expected), rate, most);
    std::fflush(stdout);
  }
  print_cost();
  return true;
}

bool day(const DayOptions& options) {
  Day subnet(options);
  subnet.run([&] {
    std::printf("check %u: %u links up, ", subnet.checks(), subnet.up());
    print_cost();
  });
  for (std::size_t i = 0; i < kFaults; ++i) {
    const auto fault = static_cast<Fault>(i);
    std::printf("%8lu %s\n", subnet.count(fault), std::string(name(fault)).c_str());
  }
  std::printf("%lu packets sent to peers, %lu received; %lu packets and %lu MADs on the subnet\n",
              subnet.packets(), subnet.received(), subnet.world.packets_sent,
              subnet.world.mads_sent);
  std::printf("after all faults: up within %.2f s, then all pairs within %.2f s\n",
              seconds(subnet.longest_until_up()), seconds(subnet.longest_exchange()));
  print("the day", subnet.load());
  for (const std::string& failure : subnet.failures()) std::printf("FAILED %s\n", failure.c_str());
  print_cost();
  return subnet.failures().empty();
}

int run(int argc, char** argv) {
  DayOptions options;
  std::uint32_t spread = 0;
  double hours = 24;
  double fault_seconds = 60;
  std::uint32_t peers = 1;
  po::options_description description(
      "Usage: sim_scale --boot | --tree | --pairs | --silence | --day");
  auto add = description.add_options();
  add("help", "print this help");
  add("boot", "links that boot together");
  add("tree", "links on a fat tree of switches, of which some fail");
  add("pairs", "SA requests of pairs that exchange packets, for several sizes");
  add("silence", "SA requests because of silence of the broadcast group, for several sizes");
  add("day", "random faults");
  add("links", po::value(&options.subnet.links)->default_value(1000));
  add("partitions", po::value(&options.subnet.partitions)->default_value(1),
      "links on each port; at most 4095 ports");
  add("switch-ports", po::value(&options.subnet.switch_ports)->default_value(0),
      "of each switch of a fat tree of three levels; 0: one switch");
  add("peers", po::value(&peers)->default_value(peers), "of each link on the tree");
  add("seed", po::value(&options.subnet.seed)->default_value(1));
  add("spread", po::value(&spread)->default_value(0), "seconds within which processes start");
  add("hours", po::value(&hours)->default_value(24), "of the day");
  add("fault-seconds", po::value(&fault_seconds)->default_value(60), "between faults, on average");
  po::variables_map chosen;
  po::store(po::parse_command_line(argc, argv, description), chosen);
  po::notify(chosen);
  if (chosen.contains("help")) {
    std::cout << description;
    return 0;
  }
  std::printf("seed %lu\n", options.subnet.seed);
  options.time = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(hours * 3600));
  options.between_faults =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(fault_seconds));
  if (chosen.contains("boot")) {
    return boot(options.subnet, std::chrono::seconds(spread)) ? 0 : 1;
  }
  if (chosen.contains("tree")) return tree(options.subnet, peers) ? 0 : 1;
  if (chosen.contains("pairs")) return pairs(options.subnet) ? 0 : 1;
  if (chosen.contains("silence")) return silence(options.subnet) ? 0 : 1;
  if (chosen.contains("day")) return day(options) ? 0 : 1;
  throw po::error("choose --boot, --tree, --pairs, --silence or --day");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::cerr << "sim_scale: " << e.what() << '\n';
    return 2;
  }
}
