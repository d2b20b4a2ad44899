#include "daemon/interfaces/configuration.hpp"

#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "daemon/interfaces/neighbour_store.hpp"
#include "daemon/options/interface_plan.hpp"
#include "daemon/options/logging.hpp"
#include "ipoib/log.hpp"

namespace ipoib::daemon {

namespace {

constexpr std::string_view kNothing = "(none)";

/// "OLD -> NEW" for an option.
std::string change_of(const std::string& before, const std::string& after) {
  return (before.empty() ? std::string(kNothing) : before) + " -> " +
         (after.empty() ? std::string(kNothing) : after);
}

std::string value_of(const Options& options, const std::string& name) {
  const auto at = options.settings.find(name);
  return at == options.settings.end() ? std::string() : at->second;
}

/// Names of the options whose values differ.
std::set<std::string> differences(const Options& before, const Options& after) {
  std::set<std::string> out;
  for (const auto* const options : {&before, &after}) {
    for (const auto& [name, value] : options->settings) {
      if (value_of(before, name) != value_of(after, name)) out.insert(name);
    }
  }
  return out;
}

}  // namespace

Reloaded Configuration::reload(Logging& logs, NeighbourStore& neighbours) {
  try {
    auto read = parse_options(arguments_, folder_);
    return take_over(std::get<Options>(read), logs, neighbours);
  } catch (const UsageError& error) {
    logs.daemon->error("the configuration is invalid, and nothing was changed: {}", error.what());
    return {};
  }
}

Reloaded Configuration::take_over(Options& read, Logging& logs, NeighbourStore& neighbours) {
  Reloaded out;
  auto changed = differences(options_, read);
  const auto take = [&](const std::string& name) {
    if (changed.erase(name) == 0) return false;
    auto& before = options_.settings[name];
    auto after = value_of(read, name);
    logs.daemon->info("{}: {}", name, change_of(before, after));
    before = std::move(after);
    return true;
  };
  if (take("log")) {
    options_.log = std::move(read.log);
    // Modules that are no longer named get the default level.
    for (const auto& levels : {Options().log, options_.log}) (void)logs.levels.set(levels);
  }
  if (take("poll")) out.poll = options_.poll = read.poll;
  // Existing interfaces keep their names.
  if (base_partition(options_.pkeys) == base_partition(read.pkeys) && take("pkey"))
    out.pkeys = options_.pkeys = std::move(read.pkeys);
  (void)take("neighbour-file");
  if (options_.neighbours != read.neighbours) {
    logs.daemon->info("the file of neighbours has changed: {} entries", read.neighbours.size());
    options_.neighbours = std::move(read.neighbours);
    out.neighbours = neighbours.replace_file(options_.neighbours);
  }
  for (const auto& name : changed) {
    logs.daemon->warn("{}: {}: takes effect when ipoibd is started again", name,
                      change_of(value_of(options_, name), value_of(read, name)));
  }
  logs.daemon->info("has read its configuration again");
  return out;
}

}  // namespace ipoib::daemon
