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

}  // namespace

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
  std::vector<std::pair<Logger*, spdlog::level::level_enum>> changes;
  for (const auto& [module, text] : levels) {
    const auto level = level_of(text);
    if (!level) {
      return Error{EINVAL, text +
                               ": no such level; levels are trace, debug, info, warning, error, "
                               "critical, off"};
    }
    const std::size_t before = changes.size();
    for (const auto& logger : loggers_) {
      if (module == kAllModules || module == logger->name()) {
        changes.emplace_back(logger.get(), *level);
      }
    }
    if (changes.size() > before) continue;
    std::string names;
    for (const auto& logger : loggers_) names.append(logger->name()).append(", ");
    return Error{EINVAL, module + ": no such module; modules are " + names.append(kAllModules)};
  }
  for (const auto& [logger, level] : changes) {
    logger->set_level(level);
    for (const auto& weak : others_) {
      const auto other = weak.lock();
      if (other && other->name() == logger->name()) other->set_level(level);
    }
  }
  return {};
}

}  // namespace ipoib::control
