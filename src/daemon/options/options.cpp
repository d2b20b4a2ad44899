#include "daemon/options/options.hpp"

#include <net/if.h>

#include <boost/any.hpp>
#include <boost/program_options.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <tuple>

#include "daemon/options/configuration_files.hpp"
#include "daemon/options/interface_plan.hpp"
#include "daemon/options/logging.hpp"
#include "daemon/options/option_groups.hpp"
#include "daemon/options/option_values.hpp"
#include "program/nearest.hpp"

namespace ipoib::daemon {

namespace {

namespace po = boost::program_options;

std::string help_text(const po::options_description& all) {
  std::ostringstream out;
  out << "Usage: ipoibd [OPTION]...\n\n"
         "IP over InfiniBand (RFC 4391) in user space: a network interface for each partition of\n"
         "one port. Runs in the foreground until SIGTERM or SIGINT. See ipoibd(8).\n"
      << all << "\nExit status: 0 if a signal ended it, 1 on failure, 2 for invalid options.\n";
  return out.str();
}

std::string trimmed(const std::string& text) {
  constexpr const char* kBlanks = " \t\r";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

/// Whether the option may be given several times.
bool is_list(const std::string& option) { return option == "pkey" || option == "vlan"; }

/// Throws what is wrong with the value of one option.
void check_value(const po::option& option) {
  Options unused;
  const auto all = all_options(unused);
  po::parsed_options one(&all);
  one.options.push_back(option);
  po::variables_map values;
  po::store(one, values);
  po::notify(values);
}

/// What an unknown option of the command line ("--" before the name) or of a file may mean.
std::string suggestion(const std::string& word, const po::options_description& all,
                       const std::string& before) {
  std::vector<std::string> known;
  for (const auto& option : all.options()) {
    const auto& name = option->long_name();
    if (!before.empty() || is_for_files(name)) known.push_back(before + name);
  }
  return program::did_you_mean(std::string_view(word).substr(0, word.find('=')),
                               std::vector<std::string_view>(known.begin(), known.end()));
}

/// Parses "option", "option = value", or an empty line or comment, for which it returns nullopt.
std::optional<po::option> parse_line(const std::string& line, const po::options_description& all) {
  const auto text = trimmed(line.substr(0, line.find('#')));
  if (text.empty()) return std::nullopt;
  if (text.starts_with('[')) throw UsageError(text + ": the file has no sections, only options");
  const auto equals = text.find('=');
  po::option option;
  option.string_key = trimmed(text.substr(0, equals));
  const auto* const known = all.find_nothrow(option.string_key, false);
  if (known == nullptr || !is_for_files(option.string_key)) {
    throw UsageError("no option '" + option.string_key + "'" +
                     suggestion(option.string_key, all, "") + " (ipoibd --help lists the options)");
  }
  if (equals != std::string::npos) {
    option.value.push_back(trimmed(text.substr(equals + 1)));
    if (option.value.front().find_first_of("\"'") == 0) {
      throw UsageError(option.string_key + " = " + option.value.front() +
                       ": values stand without quotes");
    }
  } else if (known->semantic()->min_tokens() > 0) {
    throw UsageError("option '" + option.string_key + "' needs a value");
  }
  return option;
}

/// Options of the command line, which are in `to` already, take precedence.
void read_file(const std::string& path, const po::options_description& all, po::variables_map& to) {
  const auto fail = [&path, &to] {
    const std::string option = to.count("config") != 0 ? "--config " : "";
    return UsageError(option + path + ": " + std::strerror(errno));
  };
  std::ifstream file(path);
  if (!file) throw fail();
  po::parsed_options found(&all);
  std::set<std::string> seen;
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    try {
      const auto option = parse_line(line, all);
      if (!option) continue;
      check_value(*option);
      if (!seen.insert(option->string_key).second && !is_list(option->string_key)) {
        throw UsageError("option '" + option->string_key + "' was given before");
      }
      found.options.push_back(*option);
    } catch (const std::exception& error) {
      throw UsageError(path + ":" + std::to_string(number) + ": " + error.what());
    }
  }
  if (file.bad()) throw fail();
  po::store(found, to);
}

bool is_emulated(const po::variables_map& values) {
  return values.count("softib") != 0 || values.count("roce") != 0;
}

/// The file that --config names, or the default ones for the port that the command line names.
std::vector<std::string> files_to_read(const po::variables_map& values, const std::string& folder) {
  if (values.count("config") != 0) return {values["config"].as<std::string>()};
  if (is_emulated(values)) return {};
  auto port = values.count("device") != 0 ? values["device"].as<std::string>() : std::string();
  if (!port.empty() && port.find(':') == std::string::npos) {
    port += ":" + values["port"].as<std::string>();
  }
  return configuration_files(folder, port);
}

/// Reads the file of neighbours, and appends its name to `files`. The default one need not exist.
void read_neighbours(Options& options, const po::variables_map& values, const std::string& folder,
                     std::vector<std::string>& files) {
  const bool is_chosen = values.count("neighbour-file") != 0;
  if (!is_chosen && is_emulated(values)) return;
  const auto path = is_chosen ? values["neighbour-file"].as<std::string>()
                              : folder + "/" + std::string(control::kNeighbourFile);
  auto read = control::read_neighbours(path);
  if (!read && read.error().code == ENOENT && !is_chosen) return;
  if (!read) throw UsageError((is_chosen ? "--neighbour-file " : "") + read.error().message);
  options.neighbours = std::move(*read);
  files.push_back(path);
}

struct OnCommandLine {
  bool device = false;
  bool port = false;
};

/// Takes the port from "NAME:PORT". The command line takes precedence over files.
void split_device(Options& options, const OnCommandLine& given) {
  const auto colon = options.device.rfind(':');
  if (colon == std::string::npos) return;
  const auto port = static_cast<std::uint8_t>(
      parse_number("device NAME:PORT", options.device.substr(colon + 1), 1, 254));
  if (given.device && given.port && options.port != port) {
    throw UsageError("--device " + options.device + ": --port chooses another port");
  }
  if (given.device || !given.port) options.port = port;
  options.device.resize(colon);
}

/// A RoCE port is not taken unless it is named, and that of --roce has the name of softib's first
/// device.
void take_roce(Options& options, const po::variables_map& values) {
  if (values.count("roce") == 0) return;
  auto& target = options.softib ? *options.softib : options.softib.emplace();
  if (target != SoftibTarget{}) {
    throw UsageError("--roce: a RoCE port is in no subnet: leave out the names of --softib");
  }
  target.roce = values["roce"].as<std::string>();
  if (options.device.empty()) options.device = "softib0";
}

/// Otherwise it would be `softib run` that complains, about a name that nobody has given.
void check_emulated_port(const Options& options) {
  constexpr std::uint8_t kEmulatedPorts = 2;
  if (options.softib && !options.softib->roce && options.port > kEmulatedPorts) {
    throw UsageError("--port " + std::to_string(options.port) +
                     ": an emulated HCA (--softib) has ports 1 and 2");
  }
}

/// Without --device, the first device is another one only at the start.
void check_backup(const Options& options) {
  if (!options.backup) return;
  const auto text = options.backup->text();
  if (options.device.empty()) {
    throw UsageError("--backup " + text + ": needs --device, which names the other port");
  }
  if (*options.backup == PortName{options.device, options.port}) {
    throw UsageError("--backup " + text + ": is the port of --device");
  }
}

/// What somebody has chosen, and would look for in vain, is an error.
void check_effect(const Options& options, const po::variables_map& values) {
  const bool has_ethernet = options.ethernet.all || !options.ethernet.pkeys.empty();
  for (const auto& [option, needed, has_it] :
       {std::tuple{"ethernet-stations", "ethernet", has_ethernet},
        {"ethernet-strict-source", "ethernet", has_ethernet},
        {"backup-reselect", "backup", options.backup.has_value()},
        {"hold-down", "backup", options.backup.has_value()}}) {
    const auto& value = values[option];
    const auto* const flag = boost::any_cast<bool>(&value.value());
    const bool is_given = flag != nullptr ? *flag : !value.empty() && !value.defaulted();
    if (is_given && !has_it) {
      throw UsageError(std::string("--") + option + ": has no effect without --" + needed);
    }
  }
}

/// The value of an option, for Options::settings.
std::string text_of(const po::variable_value& value) {
  if (const auto* const flag = boost::any_cast<bool>(&value.value())) return *flag ? "yes" : "no";
  if (const auto* const text = boost::any_cast<std::string>(&value.value())) return *text;
  std::string out;
  for (const auto& text : value.as<std::vector<std::string>>())
    out += (out.empty() ? "" : ", ") + text;
  return out;
}

/// The interface whose TAP carries the VLANs exists, is a TAP, and has a partition of its own.
void check_vlans(const Options& options) {
  if (options.vlans.empty()) return;
  const auto trunk = base_partition(options.pkeys);
  const auto& chosen = options.pkeys;
  const auto is_chosen = [&](PKey pkey) { return std::ranges::find(chosen, pkey) != chosen.end(); };
  if (!options.ethernet.includes(trunk)) {
    throw UsageError("--vlan: needs --ethernet for the interface " + options.interface +
                     ", which carries the VLANs");
  }
  if (!chosen.empty() && !is_chosen(trunk)) {
    throw UsageError("--vlan: there is no interface " + options.interface +
                     " that carries the VLANs: choose one partition with --pkey, or 0xffff, too");
  }
  if (options.ethernet_stations == 0) {
    throw UsageError("--vlan: not with --ethernet-stations 0: in a VLAN, there are only stations");
  }
  for (const auto& [pkey, vlan] : options.vlans) {
    const auto text = "--vlan " + std::to_string(vlan.value()) + "=" + list_of({&pkey, 1});
    if (pkey == trunk) {
      throw UsageError(text + ": that is the partition of frames without a tag");
    }
    if (is_chosen(pkey)) {
      throw UsageError(text + ": has no interface of its own: leave out --pkey " +
                       list_of({&pkey, 1}));
    }
  }
}

void check_log(const Options& options) {
  const auto valid = control::check_levels(options.log, Logging::kModules);
  if (!valid) throw UsageError("--log: " + valid.error().message);
}

std::string check_report(const std::vector<std::string>& files) {
  std::string text = "the options are valid\n";
  for (const auto& file : files) text += "  " + file + "\n";
  return text;
}

/// Several interfaces append their P_Keys or VLANs to the name.
void check_name(const Options& options) {
  const bool is_alone = options.pkeys.size() == 1 && options.vlans.empty();
  if (is_alone || options.interface.size() + kPartitionSuffix < IFNAMSIZ) return;
  throw UsageError(
      "--name " + options.interface + ": must have at most " +
      std::to_string(IFNAMSIZ - 1 - kPartitionSuffix) +
      " characters, since P_Keys (.8001) and VLANs (.18) are appended to it; or choose "
      "one partition with --pkey, and no --vlan");
}

}  // namespace

std::variant<Options, Information> parse_options(std::span<const std::string> arguments,
                                                 const std::string& folder) {
  Options options;
  const auto all = all_options(options);
  try {
    po::variables_map values;
    const std::vector<std::string> words(arguments.begin(), arguments.end());
    const auto style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::store(po::command_line_parser(words).options(all).style(style).positional({}).run(),
              values);
    if (values.count("help") != 0) return Information{help_text(all)};
    if (values.count("version") != 0) return Information{"ipoibd " IPOIB_VERSION "\n"};
    const OnCommandLine given{values.count("device") != 0, !values["port"].defaulted()};
    auto files = files_to_read(values, folder);
    for (const auto& file : files) read_file(file, all, values);
    po::notify(values);
    split_device(options, given);
    take_roce(options, values);
    check_emulated_port(options);
    check_backup(options);
    check_effect(options, values);
    check_vlans(options);
    check_name(options);
    check_log(options);
    for (const auto& [name, value] : values) {
      if (is_for_files(name) && !value.empty()) options.settings[name] = text_of(value);
    }
    read_neighbours(options, values, folder, files);
    if (values.count("check-config") != 0) return Information{check_report(files)};
    // Each neighbour may have its own path, and a new one may be learnt.
    options.link.limits.paths = options.link.limits.neighbours + 1;
  } catch (const po::unknown_option& error) {
    const std::string similar = suggestion(error.get_option_name(), all, "--");
    throw UsageError(error.what() + similar + " (ipoibd --help lists the options)");
  } catch (const po::error& error) {
    throw UsageError(std::string(error.what()) + " (ipoibd --help lists the options)");
  }
  return options;
}

}  // namespace ipoib::daemon
