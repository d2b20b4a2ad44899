// ibarp: parses the command line, runs the command for each interface and prints the results.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <thread>

#include "batch.hpp"
#include "metrics/metrics_file.hpp"
#include "monitor.hpp"
#include "run.hpp"

namespace {

using namespace ipoib::cli;  // NOLINT: this file is the program
using Verb = Command::Verb;

/// "FILE:LINE: " while a command of a file runs, otherwise empty.
std::string location;

void print_error(const std::string& why) {
  std::fprintf(stderr, "ibarp: %s%s\n", location.c_str(), why.c_str());
}

/// errno of the first failure to print; 0: none
int print_failure = 0;

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() && print_failure == 0) {
    print_failure = errno;
  }
}

void flush_output() {
  if (std::fflush(stdout) != 0 && print_failure == 0) print_failure = errno;
}

/// Calls `use(client)` for each interface; reports failures and goes on. Returns the worst status.
template <class Use>
Status for_each_interface(const Command& command, Use use) {
  Status worst = kDone;
  for (const std::string& name : interfaces_of(command)) {
    try {
      use(Client(name));
    } catch (const Failure& failure) {
      print_error(failure.what());
      if (failure.status() > worst) worst = failure.status();
    }
  }
  return worst;
}

Status run_show(const Command& command) {
  std::vector<Listing> listings;
  const Status status = for_each_interface(
      command, [&](const Client& client) { listings.push_back(look_up(client, command)); });
  const bool found = std::any_of(listings.begin(), listings.end(),
                                 [](const Listing& each) { return !each.entries.empty(); });
  if (command.verb == Verb::get && !found && status == kDone) {
    throw Failure(kFailed, command.host + ": no such entry");
  }
  if (!listings.empty() || command.json) print(show(listings, command));
  return status;
}

bool has_members(const std::vector<GroupListing>& listings) {
  const auto is_known = [](const GroupLine& line) { return line.members.has_value(); };
  return std::any_of(listings.begin(), listings.end(), [&](const GroupListing& each) {
    return std::any_of(each.groups.begin(), each.groups.end(), is_known);
  });
}

Status run_groups(const Command& command) {
  std::vector<GroupListing> listings;
  bool unknown = false;
  const Status status = for_each_interface(command, [&](const Client& client) {
    const auto& why = listings.emplace_back(list_groups(client, command)).members_unknown;
    if (why.empty()) return;
    print_error(client.interface() + ": members are unknown: " + why);
    unknown = true;
  });
  // Without the right to ask, an empty table of members would look as if there were none.
  const bool are_all_unknown = unknown && command.members && !has_members(listings);
  if ((!listings.empty() && !are_all_unknown) || command.json) print(groups(listings, command));
  return status == kDone && unknown && command.members ? kFailed : status;
}

Status run_stations(const Command& command) {
  std::vector<StationListing> listings;
  const Status status = for_each_interface(command, [&](const Client& client) {
    const auto found = client.stations(!command.device.empty());
    if (found) listings.push_back({client.interface(), *found});
  });
  if (listings.empty() && status == kDone && !command.json) {
    throw Failure(kFailed, "none of the interfaces is an Ethernet one (ipoibd --ethernet)");
  }
  if (!listings.empty() || command.json) print(stations(listings, command));
  return status;
}

Status run_interfaces(const Command& command) {
  std::vector<ibarp_info> infos;
  const Status status =
      for_each_interface(command, [&](const Client& client) { infos.push_back(client.info()); });
  print(interfaces(infos, command));
  return status;
}

Status change_interfaces(const Command& command) {
  if (command.verb == Verb::add_interface) {
    print(add_interface(daemon_of(command), command));
  } else {
    delete_interface(Client(command.device));
  }
  return kDone;
}

/// Prints what `report(client, command)` returns for each interface.
template <class Report>
Status run_report(const Command& command, Report report) {
  std::string all;
  const Status status = for_each_interface(command, [&](const Client& client) {
    if (command.json && !all.empty()) all += ",";
    all += report(client, command);
  });
  print(command.json ? "[" + all + "]\n" : all);
  return status;
}

/// Fails if anything is wrong.
Status run_check(const Command& command) {
  bool is_wrong = false;
  const Status status = run_report(command, [&](const Client& client, const Command&) {
    const Findings findings = check(client);
    is_wrong |= findings.has_wrong();
    return command.json ? findings.json() : findings.text();
  });
  return is_wrong ? kFailed : status;
}

/// Fails if packets do not arrive.
Status run_explain(const Command& command) {
  const Findings findings = explain(command);
  print(command.json ? "[" + findings.json() + "]\n" : findings.text());
  return findings.has_wrong() ? kFailed : kDone;
}

/// Probes once, with --interval until it is killed, with --count so many times. Fails if the last
/// one failed.
Status run_probe(const Command& command) {
  const auto& watch = command.watch;
  const bool is_endless = watch.interval.has_value() && !watch.count;
  const std::uint32_t count = watch.count.value_or(1);
  const auto pause = watch.interval.value_or(std::chrono::seconds(1));
  bool is_wrong = false;
  for (std::uint32_t i = 0; (is_endless || i < count) && print_failure == 0; ++i) {
    if (i != 0) std::this_thread::sleep_for(pause);
    const Findings findings = probe(command, static_cast<std::uint16_t>(i + 1));
    is_wrong = findings.has_wrong();
    print(command.json ? "[" + findings.json() + "]\n" : findings.text());
    flush_output();
  }
  return is_wrong ? kFailed : kDone;
}

void write_file(const std::string& path, const std::string& text) {
  const auto written = ipoib::metrics::write_metrics_file(path, text);
  if (!written) throw Failure(kFailed, written.error().message);
}

/// All interfaces of the daemon of the given one, or of all. Writes nothing if anything is missing.
Status run_save(const Command& command) {
  std::string text = "# ibarp save; ibarp --batch sets it again.\n";
  SavedDaemons daemons;
  Command all = command;
  all.device.clear();
  std::optional<std::uint32_t> daemon;
  if (!command.device.empty()) daemon = Client(command.device).info().pid;
  const Status status = for_each_interface(all, [&](const Client& client) {
    if (!daemon || client.info().pid == *daemon) text += save(client, daemons);
  });
  if (status != kDone) return status;
  command.output.empty() || command.output == "-" ? print(text) : write_file(command.output, text);
  return kDone;
}

Status run_metrics(const Command& command) {
  if (!command.serve.empty()) {
    serve_metrics(command);
    return kDone;
  }
  const Metrics metrics = collect_metrics(command);
  for (const std::string& problem : metrics.problems) print_error(problem);
  if (command.output.empty()) {
    print(metrics.families.text());
  } else {
    write_file(command.output, metrics.families.text());
  }
  return kDone;
}

Status run_batch(const Command& options);

/// Prints at once. Returns whether that is possible.
bool print_line(const std::string& text) {
  print(text);
  flush_output();
  return print_failure == 0;
}

/// Makes a change that prints nothing.
void make(const Client& client, const Command& command) {
  if (command.verb == Verb::load) return load(client, command);
  if (command.verb == Verb::failover) return fail_over(client, command);
  change(client, command);
}

Status run(const Command& command) {
  switch (command.verb) {
    case Verb::show:
    case Verb::get:
      return run_show(command);
    case Verb::add:
    case Verb::change:
    case Verb::replace:
    case Verb::remove:
    case Verb::load:
    case Verb::failover:
      return for_each_interface(command, [&](const Client& client) { make(client, command); });
    case Verb::flush:
      return run_report(command, flush);
    case Verb::stats:
      return run_report(command, stats);
    case Verb::log:
      return run_report(command, log_levels);
    case Verb::trace:
      return run_report(command, trace);
    case Verb::info:
      return run_report(command, info);
    case Verb::groups:
      return run_groups(command);
    case Verb::stations:
      return run_stations(command);
    case Verb::interfaces:
      return run_interfaces(command);
    case Verb::metrics:
      return run_metrics(command);
    case Verb::add_interface:
    case Verb::delete_interface:
      return change_interfaces(command);
    case Verb::monitor:
      return monitor(command, print_line);
    case Verb::wait:
      return wait_for(command);
    case Verb::top:
      return top(command, print_line);
    case Verb::check:
      return run_check(command);
    case Verb::explain:
      return run_explain(command);
    case Verb::probe:
      return run_probe(command);
    case Verb::save:
      return run_save(command);
    case Verb::bug_report:
      print(bug_report(command));
      return kDone;
    case Verb::batch:
      return run_batch(command);
    case Verb::help:
    case Verb::version:
      print(command.verb == Verb::help ? help_text() : "ibarp " IPOIB_VERSION "\n");
      return kDone;
  }
  return kUsage;
}

/// Runs `what`, and reports what it throws.
template <class What>
Status guarded(What what) {
  try {
    return what();
  } catch (const Failure& failure) {
    print_error(failure.what());
    return failure.status();
  } catch (const std::exception& error) {
    print_error(error.what());
    return kFailed;
  }
}

/// Runs the commands of a file until one fails, with --force all of them. Returns the worst status.
Status run_batch(const Command& options) {
  Batch batch(options.batch);
  Status worst = kDone;
  while (worst == kDone || options.force) {
    std::vector<std::string> words;
    bool has_words = false;
    const Status status = guarded([&] {
      has_words = batch.next(words);
      if (!has_words) return kDone;
      location = batch.location();
      const Command command = parse_words(options, words);
      if (command.verb == Verb::monitor || command.verb == Verb::top) {
        misused("monitor and top are not for --batch");
      }
      return run(command);
    });
    location.clear();
    worst = std::max(worst, status);
    flush_output();  // a program may write commands and read the results
    if (!has_words || print_failure != 0) break;
  }
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  const Status status = guarded([&] {
    const Command command = parse_command(argc, argv);
    use_colors(command.color);
    return run(command);
  });
  // A reader such as head(1) may close the pipe early; that is no error.
  flush_output();
  if (print_failure != 0 && print_failure != EPIPE) {
    print_error(std::string("the output is incomplete: ") + std::strerror(print_failure));
    return status == kDone ? kFailed : status;
  }
  return status;
}
