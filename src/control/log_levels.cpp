// The level names are spdlog's, as in the log itself.
#include "control/log_levels.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "ipoib/log.hpp"

namespace ipoib::control {

namespace {

constexpr std::string_view kAllModules = "all";
constexpr std::array<std::pair<std::string_view, spdlog::level::level_enum>, 7> kLevels{
    {{"trace", spdlog::level::trace},
     {"debug", spdlog::level::debug},
     {"info", spdlog::level::info},
     {"warning", spdlog::level::warn},
     {"error", spdlog::level::err},
     {"critical", spdlog::level::critical},
     {"off", spdlog::level::off}}};

std::string_view name(spdlog::level::level_enum level) {
  const auto* const at = std::find_if(kLevels.begin(), kLevels.end(),
                                      [level](const auto& each) { return each.second == level; });
  return at == kLevels.end() ? "off" : at->first;
}

std::optional<spdlog::level::level_enum> level_of(std::string_view text) {
  for (const auto& [word, level] : kLevels) {
    if (word == text) return level;
  }
  return std::nullopt;
}

bool is_for(std::string_view wanted, std::string_view module) {
  return wanted == kAllModules || wanted == module;
}

}  // namespace

Result<void> check_levels(const std::vector<ModuleLevel>& levels,
                          std::span<const std::string_view> modules) {
  for (const auto& [wanted, text] : levels) {
    if (!level_of(text)) {
      return Error{EINVAL, text +
                               ": no such level; levels are trace, debug, info, warning, error, "
                               "critical, off"};
    }
    if (std::ranges::any_of(modules, [&](auto each) { return is_for(wanted, each); })) continue;
    std::string names;
    for (const auto module : modules) names.append(module).append(", ");
    return Error{EINVAL, wanted + ": no such module; modules are " + names.append(kAllModules)};
  }
  return {};
}

LogLevels::LogLevels(std::vector<std::shared_ptr<Logger>> loggers) : loggers_(std::move(loggers)) {}

void LogLevels::add(const std::shared_ptr<Logger>& logger) {
  std::erase_if(others_, [](const auto& other) { return other.expired(); });
  others_.push_back(logger);
  for (const auto& module : loggers_) {
    if (module->name() == logger->name()) logger->set_level(module->level());
  }
}

std::vector<ModuleLevel> LogLevels::all() const {
  std::vector<ModuleLevel> out;
  out.reserve(loggers_.size());
  for (const auto& logger : loggers_) {
    out.push_back({logger->name(), std::string(name(logger->level()))});
  }
  return out;
}

Result<void> LogLevels::set(const std::vector<ModuleLevel>& levels) {
  std::vector<std::string_view> modules;
  modules.reserve(loggers_.size());
  for (const auto& logger : loggers_) modules.emplace_back(logger->name());
  if (auto valid = check_levels(levels, modules); !valid) return valid;
  for (const auto& [module, text] : levels) {
    const auto apply = [&module, level = *level_of(text)](Logger& logger) {
      if (is_for(module, logger.name())) logger.set_level(level);
    };
    for (const auto& logger : loggers_) apply(*logger);
    for (const auto& weak : others_) {
      if (const auto other = weak.lock()) apply(*other);
    }
  }
  return {};
}

}  // namespace ipoib::control
