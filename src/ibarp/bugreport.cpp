// An archive for a report about a problem: what the daemons tell, their configuration, and the
// state of the ports.
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <sstream>
#include <system_error>

#include "archive.hpp"
#include "json.hpp"
#include "program/files.hpp"
#include "run.hpp"

namespace ipoib::ibarp {

namespace fs = std::filesystem;

namespace {

constexpr const char* kConfigurationFolder = "/etc/ipoibd";
constexpr const char* kDevicesFolder = "/sys/class/infiniband";
constexpr std::size_t kMaxFile = 1U << 20;  ///< bytes of a file of the host; the rest is left out
constexpr std::size_t kMaxFiles = 512;      ///< of a folder of the host
constexpr const char* kReadMe =
    "A report of ibarp bugreport.\n\n"
    "versions.txt       programs, kernel, distribution\n"
    "INTERFACE/         what the daemon tells of the interface\n"
    "metrics.txt        all counters, as for Prometheus\n"
    "process-PID.txt    limits and command line of the daemon\n"
    "port-DEVICE-N.txt  state and counters of the port\n"
    "configuration/     the files of /etc/ipoibd\n"
    "problems.txt       what could not be read\n\n"
    "It has addresses and names of hosts, GIDs and P_Keys, but no Q_Keys and no packets.\n";

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw fs::filesystem_error("cannot be read", path,
                               std::error_code(errno, std::generic_category()));
  }
  std::string out(kMaxFile, '\0');
  file.read(out.data(), static_cast<std::streamsize>(out.size()));
  out.resize(static_cast<std::size_t>(file.gcount()));
  return out;
}

/// The files below a folder, by name, at most kMaxFiles.
std::vector<fs::path> files_below(const fs::path& folder) {
  std::set<fs::path> found;
  std::error_code error;
  for (fs::recursive_directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    if (each->is_regular_file(error) && found.size() < kMaxFiles) found.insert(each->path());
  }
  return {found.begin(), found.end()};
}

/// A command line without the values of options that are keys. P_Keys are no secrets: each port can
/// list its own.
std::string without_keys(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    const auto equals = line.find('=');
    const bool is_key = equals != std::string::npos && line.find("qkey") < equals;
    out += (is_key ? line.substr(0, equals) + "=(left out)" : line) + "\n";
  }
  return out;
}

class BugReport {
 public:
  explicit BugReport(std::time_t now) : archive_(now) { archive_.add("README", kReadMe); }

  void add_interface(const std::string& name) {
    attempt(name, [&] {
      const Client client(name);
      ibarp_info info = client.info();
      info.qkey = 0;
      daemons_.insert(info.pid);
      ports_.insert({info.device, info.port});
      for (const Port& port : client.ports()) ports_.insert({port.values.device, port.values.port});
      archive_.add(name + "/info.json", boost::json::serialize(as_json(info)) + "\n");
      const auto part = [&](const char* file, const std::function<std::string()>& text) {
        attempt(name + "/" + file, [&] { archive_.add(name + "/" + file, text()); });
      };
      Command command;
      part("stats.txt", [&] { return stats(client, command); });
      part("trace.txt", [&] { return trace(client, command); });
      part("log-levels.txt", [&] { return log_levels(client, command); });
      part("check.txt", [&] { return check(client).text(); });
      command.wide = true;
      part("neighbours.txt", [&] { return show({look_up(client, command)}, command); });
      part("groups.txt", [&] { return groups({list_groups(client, command)}, command); });
      if (const auto found = client.stations(false)) {
        part("stations.txt", [&] { return stations({{name, *found}}, command); });
      }
    });
  }

  void add_host() {
    utsname host{};
    (void)::uname(&host);
    std::string versions = "ibarp " IPOIB_VERSION "\n" + std::string(host.sysname) + " " +
                           host.release + " " + host.version + " " + host.machine + "\n";
    attempt("os-release", [&] { versions += read_file("/etc/os-release"); });
    archive_.add("versions.txt", versions);
    for (const auto pid : daemons_) {
      const std::string folder = "/proc/" + std::to_string(pid);
      attempt(folder, [&] {
        std::string words = read_file(folder + "/cmdline");
        std::ranges::replace(words, '\0', '\n');
        archive_.add("process-" + std::to_string(pid) + ".txt",
                     without_keys(words) + "\n" + read_file(folder + "/limits"));
      });
    }
    for (const auto& [device, port] : ports_) add_port(device, port);
    for (const fs::path& path : files_below(kConfigurationFolder)) {
      attempt(path.string(), [&] {
        archive_.add("configuration/" + path.lexically_relative(kConfigurationFolder).string(),
                     without_keys(read_file(path)));
      });
    }
  }

  void add_metrics(const Command& command) {
    attempt("metrics",
            [&] { archive_.add("metrics.txt", collect_metrics(command).families.text()); });
  }

  [[nodiscard]] std::string finish() && {
    if (!problems_.empty()) archive_.add("problems.txt", problems_);
    return std::move(archive_).finish();
  }

 private:
  /// Notes the failure of a part of the report.
  void attempt(const std::string& what, const std::function<void()>& add) {
    try {
      add();
    } catch (const std::exception& error) {
      problems_ += what + ": " + error.what() + "\n";
    }
  }

  /// A line for each file, as far as it can be read: a driver may refuse some of its counters.
  void add_port(const std::string& device, std::uint32_t port) {
    const fs::path folder = fs::path(kDevicesFolder) / device / "ports" / std::to_string(port);
    std::string text;
    for (const fs::path& path : files_below(folder)) {
      std::string value;
      std::getline(std::ifstream(path), value);
      text += path.lexically_relative(folder).string() + ": " + value + "\n";
    }
    if (text.empty()) return;  // of softib
    archive_.add("port-" + device + "-" + std::to_string(port) + ".txt", text);
  }

  Archive archive_;
  std::set<std::uint32_t> daemons_;
  std::set<std::pair<std::string, std::uint32_t>> ports_;
  std::string problems_;
};

std::string usual_name(std::time_t now) {
  std::array<char, 64> text{};
  tm parts{};
  (void)::localtime_r(&now, &parts);
  (void)std::strftime(text.data(), text.size(), "ipoibd-report-%Y%m%d-%H%M%S.tar", &parts);
  return text.data();
}

}  // namespace

std::string bug_report(const Command& command) {
  const std::time_t now = std::time(nullptr);
  BugReport report(now);
  for (const std::string& name : interfaces_named(command.device)) report.add_interface(name);
  report.add_metrics(command);
  report.add_host();
  std::string bytes = std::move(report).finish();
  if (command.output == "-") return bytes;
  const std::string path = command.output.empty() ? usual_name(now) : command.output;
  // A new file: the report is private, and a folder such as /tmp may have links of others.
  const auto written = program::create_private_file(path, bytes);
  if (!written) throw Failure(kFailed, written.error().message);
  return path + "\n";
}

}  // namespace ipoib::ibarp
