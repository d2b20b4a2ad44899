// The table of subcommands, and how each runs: for each interface, and prints the results.
#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <thread>

#include "monitor.hpp"
#include "output.hpp"
#include "program/files.hpp"
#include "program/progress.hpp"
#include "run.hpp"
#include "subcommand.hpp"
#include "words.hpp"

namespace ipoib::ibarp {

namespace {

using Verb = Command::Verb;

/// Calls `use(client)` for each interface; reports failures and goes on. Returns the worst status.
template <class Use>
Status for_each_interface(const Command& command, Use use) {
  Status worst = kDone;
  for (const std::string& name : interfaces_of(command)) {
    try {
      const program::BlockingProgress progress(waiting_for(name));
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
  const Status status = for_each_interface(
      command, [&](const Client& client) { listings.push_back(list_groups(client, command)); });
  bool unknown = false;
  for (const GroupListing& each : listings) {
    if (each.members_unknown.empty()) continue;
    print_error(each.interface + ": members are unknown: " + each.members_unknown);
    unknown = true;
  }
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
Status print_reports(const Command& command, Report report) {
  std::string all;
  const Status status = for_each_interface(command, [&](const Client& client) {
    if (command.json && !all.empty()) all += ",";
    all += report(client, command);
  });
  print(command.json ? "[" + all + "]\n" : all);
  return status;
}

template <std::string (*report)(const Client&, const Command&)>
Status run_report(const Command& command) {
  return print_reports(command, report);
}

/// Prints what is wrong. Fails if anything is.
Status run_check(const Command& command) {
  bool is_wrong = false;
  const Status status = print_reports(command, [&](const Client& client, const Command&) {
    const Findings findings = check(client);
    is_wrong |= findings.has_wrong();
    return command.json ? findings.json() : findings.text(command.width);
  });
  return is_wrong ? kFailed : status;
}

/// Prints where packets go. Fails if they do not arrive.
Status run_explain(const Command& command) {
  const Findings findings = explain(command);
  print(command.json ? "[" + findings.json() + "]\n" : findings.text(command.width));
  return findings.has_wrong() ? kFailed : kDone;
}

/// Probes once; with --interval, until it is killed; with --count, so many times. Fails if the last
/// probe failed.
Status run_probe(const Command& command) {
  const auto& watch = command.watch;
  const bool is_endless = watch.interval.has_value() && !watch.count;
  const std::uint32_t count = watch.count.value_or(1);
  const auto pause = watch.interval.value_or(std::chrono::seconds(1));
  bool is_wrong = false;
  bool can_print = true;
  for (std::uint32_t i = 0; (is_endless || i < count) && can_print; ++i) {
    if (i != 0) std::this_thread::sleep_for(pause);
    const Findings findings = probe(command, static_cast<std::uint16_t>(i + 1));
    is_wrong = findings.has_wrong();
    can_print =
        print_line(command.json ? "[" + findings.json() + "]\n" : findings.text(command.width));
  }
  return is_wrong ? kFailed : kDone;
}

void write_file(const std::string& path, const std::string& text) {
  const auto written = program::replace_file(path, text);
  if (!written) throw Failure(kFailed, written.error().message);
}

/// Saves all interfaces of the daemon that has the given one, or of all daemons. Writes nothing if
/// anything is missing.
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

Status run_bug_report(const Command& command) {
  std::string done;
  {
    const program::BlockingProgress progress("collecting the report");
    done = bug_report(command);
  }
  print(done);
  return kDone;
}

Status run_metrics(const Command& command) {
  if (!command.serve.empty()) {
    serve_metrics(command);
    return kDone;
  }
  const Metrics metrics = [&] {
    const program::BlockingProgress progress("waiting for the daemons");
    return collect_metrics(command);
  }();
  for (const std::string& problem : metrics.problems) print_error(problem);
  if (command.output.empty()) {
    print(metrics.families.text());
  } else {
    write_file(command.output, metrics.families.text());
  }
  return kDone;
}

/// Makes a change that prints nothing.
template <void (*change)(const Client&, const Command&)>
Status run_change(const Command& command) {
  return for_each_interface(command, [&](const Client& client) { change(client, command); });
}

Status run_monitor(const Command& command) { return monitor(command, print_line); }

Status run_top(const Command& command) { return top(command, print_line); }

Status run_help(const Command& /*command*/) {
  print(help_text());
  return kDone;
}

constexpr auto kSubcommands = std::to_array<Subcommand>({
    {Verb::show, "show list ls", take_filters, run_show,
     R"(  show [FILTER]... [dev IF]         list entries (default command; also list)
)"},
    {Verb::get, "get", take_entry, run_show,
     R"(  get ADDRESS [dev IF]              show one entry; fail if there is none
)"},
    {Verb::add, "add", take_entry, run_change<change>,
     R"(  add ADDRESS lladdr HW [dev IF]    add a permanent entry; fail if one exists
)"},
    {Verb::change, "change chg", take_entry, run_change<change>,
     R"(  change ADDRESS lladdr HW [dev IF] replace an existing entry by a permanent one
)"},
    {Verb::replace, "replace repl", take_entry, run_change<change>,
     R"(  replace ADDRESS lladdr HW [dev IF]  add or replace a permanent entry
  add | change | replace ADDRESS gid GID [dev IF]
                                    the same for a pin: the address may have this
                                    GID only; the QPN is learnt
)"},
    {Verb::remove, "delete", take_entry, run_change<change>,
     R"(  del ADDRESS [dev IF]              delete an entry and its pin
)"},
    {Verb::flush, "flush", take_filters, run_report<flush>,
     R"(  flush [all] [FILTER]... [dev IF]  delete entries, except permanent ones
)"},
    {Verb::stats, "stats", take_nothing, run_report<stats>,
     R"(  stats [dev IF]                    show counters, and drops by reason
)"},
    {Verb::log, "log", take_levels, run_report<log_levels>,
     R"(  log [MODULE=LEVEL]... [dev IF]    show or set log levels
)"},
    {Verb::trace, "trace", take_nothing, run_report<trace>,
     R"(  trace [dev IF]                    show the last events of the daemon's threads
)"},
    {Verb::info, "info", take_nothing, run_report<info>,
     R"(  info [dev IF]                     show the interface and its state
)"},
    {Verb::groups, "groups", take_nothing, run_groups,
     R"(  groups [-m] [dev IF]              show multicast groups and, for root, their
                                    members
)"},
    {Verb::stations, "stations", take_nothing, run_stations,
     R"(  stations [dev IF]                 show the virtual machines and containers behind
                                    an Ethernet interface
)"},
    {Verb::interfaces, "interface", take_interface, run_interfaces,
     R"(  interface [dev IF]                list the interfaces and their partitions
  interface add PKEY [name NAME] [dev IF]  add the interface of a partition, on
                                    the port of that interface
  interface replace PKEY [name NAME] [dev IF]  the same, unless it exists
  interface del IF                  delete an interface
)"},
    {Verb::add_interface, "", take_interface, change_interfaces, ""},
    {Verb::delete_interface, "", take_interface, change_interfaces, ""},
    {Verb::load, "", take_nothing, run_change<load>, ""},  // of --file
    {Verb::failover, "failover", take_port, run_change<fail_over>,
     R"(  failover [DEVICE:PORT] [dev IF]   move the interface to its other port, or to
                                    this one, see ipoibd --backup
)"},
    {Verb::metrics, "metrics", take_nothing, run_metrics,
     R"(  metrics [dev IF]                  print metrics for Prometheus
)"},
    {Verb::monitor, "monitor", take_topics, run_monitor,
     R"(  monitor [TOPIC]... [dev IF]       print changes as they happen, until killed;
                                    TOPIC is neighbours, link, groups, stations,
                                    stats or all; without it all but stats
)"},
    {Verb::wait, "wait", take_condition, wait_for,
     R"(  wait up | down [dev IF]           wait until the interface, or all interfaces,
                                    are up or down; fail after --timeout
)"},
    {Verb::top, "top", take_nothing, run_top,
     R"(  top [dev IF]                      show interfaces and neighbours with their
                                    rates, again and again
)"},
    {Verb::check, "check", take_nothing, run_check,
     R"(  check [dev IF]                    check interface, port, partition and subnet
)"},
    {Verb::explain, "explain", take_entry, run_explain,
     R"(  explain --from ADDRESS [dev IF]   say what keeps packets of this sender from the host
  explain ADDRESS [dev IF]          say where packets to it go, and what keeps them
                                    from arriving
)"},
    {Verb::probe, "probe", take_entry, run_probe,
     R"(  probe ADDRESS [dev IF]            ask for the neighbour and its path again, send an
                                    echo request, and print how long each took
)"},
    {Verb::capture, "capture", take_file, capture,
     R"(  capture [-w] FILE [dev IF]        write the packets of an interface to FILE, for
                                    tshark; -: to the standard output
)"},
    {Verb::save, "save", take_nothing, run_save,
     R"(  save [dev IF]                     print commands for --batch that set interfaces,
                                    neighbours and log levels again
)"},
    {Verb::bug_report, "bugreport", take_nothing, run_bug_report,
     R"(  bugreport [dev IF]                write an archive for a report about a problem
)"},
    {Verb::help, "help", take_nothing, run_help,
     R"(  help                              print this text
)"},
});

std::vector<std::string_view> names_of(const Subcommand& subcommand) {
  std::vector<std::string_view> found;
  for (std::string_view names = subcommand.names; !names.empty();) {
    found.push_back(names.substr(0, names.find(' ')));
    names.remove_prefix(std::min(found.back().size() + 1, names.size()));
  }
  return found;
}

}  // namespace

std::span<const Subcommand> subcommands() { return kSubcommands; }

std::vector<std::string_view> subcommand_names() {
  std::vector<std::string_view> found;
  for (const Subcommand& each : kSubcommands) {
    const auto names = names_of(each);
    found.insert(found.end(), names.begin(), names.end());
  }
  return found;
}

const Subcommand* find_subcommand(std::string_view abbreviation) {
  if (abbreviation.empty()) return nullptr;
  for (const Subcommand& each : kSubcommands) {
    for (const std::string_view name : names_of(each)) {
      if (name.starts_with(abbreviation)) return &each;
    }
  }
  return nullptr;
}

const Subcommand& subcommand_of(Command::Verb verb) {
  return *std::ranges::find(kSubcommands, verb, &Subcommand::verb);
}

}  // namespace ipoib::ibarp
