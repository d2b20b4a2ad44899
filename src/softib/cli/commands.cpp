#include "softib/cli/commands.hpp"

#include <boost/program_options/parsers.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "program/files.hpp"
#include "program/limits.hpp"
#include "program/nearest.hpp"
#include "program/progress.hpp"
#include "softib/control/client.hpp"
#include "softib/core/name.hpp"

namespace softib::cli {

namespace po = boost::program_options;

namespace {
void check_subnet(const po::variables_map& values) {
  if (!values.contains("subnet")) return;
  const auto& name = values["subnet"].as<std::string>();
  if (!is_valid_name(name)) throw po::error("--subnet: " + invalid_name("subnet", name).message);
}

void check_folder(const po::variables_map& values) {
  if (values.contains("dir") && values["dir"].as<std::string>().empty()) {
    throw po::error("--dir: the name of the directory is empty");
  }
}

/// Accepts a list of NAME and NAME:PORT, also :PORT at its front, and an empty value.
void check_hca(const po::variables_map& values) {
  if (!values.contains("hca")) return;
  std::string hca = values["hca"].as<std::string>();
  if (hca.empty()) return;
  if (hca.front() == ':') hca.insert(0, "x");  // any valid name
  if (const auto hcas = fabric::parse_hcas(hca); !hcas) {
    throw po::error("--hca: " + hcas.error().message);
  }
}

std::string text_of(std::string_view usage, const po::options_description& options) {
  std::ostringstream text;
  text << usage << options;
  return text.str();
}
}  // namespace

int print(std::string_view text) {
  const auto printed = ipoib::program::print(text);
  return printed ? kSuccess : fail(printed.error());
}

int print_or_replace(const po::variables_map& options, const std::string& text) {
  if (!options.contains("output")) return print(text);
  const auto written = ipoib::program::replace_file(options["output"].as<std::string>(), text);
  return written ? kSuccess : fail(written.error());
}

int fail(const ipoib::Error& error) {
  std::cerr << "softib: " << error.message << ipoib::program::limit_remedy(error.message) << '\n';
  return kFailure;
}

int fail_usage(std::string_view subcommand, std::string_view message) {
  std::cerr << "softib " << subcommand << ": " << message << " (try softib " << subcommand
            << " --help)\n";
  return kUsage;
}

ipoib::Result<std::string> ask(const fabric::SubnetFolder& folder, std::string_view request) {
  const ipoib::program::BlockingProgress progress("waiting for the subnet '" + folder.name() + "'");
  return control::send_request(folder, request);
}

po::options_description common_options() {
  po::options_description options("Options of all subcommands");
  options.add_options()("subnet", po::value<std::string>()->value_name("NAME"),
                        "the subnet (default: $SOFTIB_SUBNET, else \"default\")")(
      "dir", po::value<std::string>()->value_name("DIR"),
      "directory of the subnets (default: $SOFTIB_DIR, else /run/softib for root, "
      "$XDG_RUNTIME_DIR/softib or /tmp/softib-UID for others)")("help,h", "print this and exit")(
      "version,V", "print the version and exit");
  return options;
}

namespace {

std::string suggestion(std::string_view word, const po::options_description& options) {
  std::vector<std::string> known;
  for (const auto& option : options.options()) known.push_back("--" + option->long_name());
  return ipoib::program::did_you_mean(word,
                                      std::vector<std::string_view>(known.begin(), known.end()));
}

}  // namespace

std::optional<po::variables_map> parse_options(int argc, char** argv,
                                               const po::options_description& options,
                                               const po::positional_options_description& positional,
                                               std::string_view usage, int& exit_code) {
  po::options_description visible;
  if (!options.options().empty()) visible.add(options);
  visible.add(common_options());
  // program_options wants an option for positional arguments, too; --help does not show it.
  po::options_description all;
  all.add(visible);
  for (unsigned i = 0; i < positional.max_total_count() && i < 1; ++i) {
    const auto& name = positional.name_for_position(0);
    all.add_options()(name.c_str(), po::value<std::vector<std::string>>());
  }
  try {
    po::variables_map values;
    const auto parsed =
        po::command_line_parser(argc, argv).options(all).positional(positional).run();
    for (const auto& option : parsed.options) {
      if (option.position_key >= 0 || option.string_key.empty()) continue;
      if (visible.find_nothrow(option.string_key, false) == nullptr) {
        throw po::unknown_option("--" + option.string_key);
      }
    }
    po::store(parsed, values);
    po::notify(values);
    if (values.contains("help")) {
      exit_code = print(text_of(usage, visible));
      return std::nullopt;
    }
    if (values.contains("version")) {
      exit_code = print("softib " SOFTIB_VERSION "\n");
      return std::nullopt;
    }
    check_subnet(values);
    check_folder(values);
    check_hca(values);
    return values;
  } catch (const po::unknown_option& error) {
    exit_code = fail_usage(argv[0], error.what() + suggestion(error.get_option_name(), visible));
    return std::nullopt;
  } catch (const po::error& error) {
    exit_code = fail_usage(argv[0], error.what());
    return std::nullopt;
  }
}

std::vector<std::string> arguments_of(const po::variables_map& options, const std::string& name) {
  if (!options.contains(name)) return {};
  return options[name].as<std::vector<std::string>>();
}

ipoib::Result<fabric::SubnetFolder> chosen_subnet(const po::variables_map& options) {
  if (options.contains("dir")) {
    ::setenv(fabric::kDirectoryVariable, options["dir"].as<std::string>().c_str(), 1);
  }
  if (options.contains("subnet"))
    return fabric::SubnetFolder::of(options["subnet"].as<std::string>());
  return fabric::SubnetFolder::from_environment();
}

}  // namespace softib::cli
