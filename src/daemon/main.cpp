// ipoibd: the wiring diagram. See interface.hpp for that of an interface.
//
//        Interface ib0 --------+                  +---- ServedPort ---- SaBackend ---- fabric
//                              |                  |          |
//        Interface ib0.8001 ---+---- PortControl -+          +---- PortWatcher
//                              |                  |
//        ...           --------+                  +---- signals
//
// With a backup port, there is a second ServedPort.
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "control/socket_folder.hpp"
#include "daemon/acm/socket.hpp"
#include "daemon/find_device.hpp"
#include "daemon/handover_checks.hpp"
#include "daemon/interfaces/cleanup.hpp"
#include "daemon/interfaces/configuration.hpp"
#include "daemon/interfaces/interface_factory.hpp"
#include "daemon/interfaces/softib_launcher.hpp"
#include "daemon/open_ports.hpp"
#include "daemon/options/interface_plan.hpp"
#include "daemon/options/logging.hpp"
#include "daemon/options/reload_request.hpp"
#include "daemon/port_control.hpp"
#include "daemon/process/privileges.hpp"
#include "daemon/process/sandbox.hpp"
#include "daemon/process/service.hpp"
#include "daemon/waiting_interfaces.hpp"
#include "ipoib/crash_dump.hpp"
#include "ipoib/descriptor_limit.hpp"
#include "ipoib/log.hpp"
#include "ipoib/log_event.hpp"
#include "ipoib/run_folder.hpp"
#include "ipoib/service_manager.hpp"
#include "ipoib/used_run_folder.hpp"
#include "linux/network_namespace.hpp"
#include "linux/tun_device.hpp"
#include "linux/vlan_trunk.hpp"
#include "program/files.hpp"
#include "program/limits.hpp"
#include "wire/ipv6.hpp"

namespace ipoib::daemon {
namespace {

enum ExitCode { kOrderly = 0, kFailure = 1, kUsage = 2 };

/// What outlives the device, which may go away and come back.
struct Dependencies {
  Configuration& configuration;
  const Options& options;
  Logging& logs;
  const linux::NetworkNamespace home;
  const HandledSignals& signals;
  KeptInterfaces kept;
  OperatorChanges changes;
  NeighbourStore neighbours;
  std::unique_ptr<linux::VlanTrunk> trunk;  ///< null without --vlan
  PidFile pid_file;
  std::string privileges;  ///< Restricted::privileges
  bool has_logged_privileges = false;
  Takeover takeover = Takeover::no;  ///< at the start
  std::optional<acm::Socket> acm;    ///< with --acm, if no other server has the name
};

/// Systemd gives the run folder to the service user, perhaps before he has a daemon.
bool is_of_service(const Folder& run) {
  struct stat status {};
  const auto* const service = ::getpwnam(kServiceUser);
  return service != nullptr && ::fstat(run.fd.get(), &status) == 0 &&
         status.st_uid == service->pw_uid;
}

bool is_needed_by_its_owner(const Folder& run) {
  return is_of_service(run) || control::has_living_daemon(run);
}

/// The folder in which a daemon of this account creates sockets, also later, until its end. That of
/// the service user stays, since containers mount it. Without the folder, the daemon says so when
/// it needs it.
std::optional<UsedRunFolder> use_run_folder(const Account& account) {
  const bool is_root = ::geteuid() == 0;
  const auto open = [&]() -> Result<Folder> {
    auto run = is_root ? give_run_folder(account.user.value_or(0), is_needed_by_its_owner)
                       : open_run_folder();
    if (run && is_of_service(*run)) return Error(EEXIST, {});  // it stays, so there is none to use
    return run;
  };
  const bool changes_user = is_root && account.user.value_or(0) != 0;
  return UsedRunFolder::take(open,
                             changes_user ? RemovalRights::are_given_up : RemovalRights::stay);
}

/// The queues outlive the device, since larger ones need a privilege that is dropped.
std::unique_ptr<linux::VlanTrunk> make_trunk(const Options& options) {
  if (options.vlans.empty()) return nullptr;
  std::vector<VlanId> vlans;
  vlans.reserve(options.vlans.size());
  for (const auto& [pkey, vlan] : options.vlans) vlans.push_back(vlan);
  return std::make_unique<linux::VlanTrunk>(vlans);
}

/// The link from the name that librdmacm knows to the socket in the run folder.
void link_acm_socket(const Options& options, const std::string& run_folder, Logger& log) {
  if (!options.acm) return;
  const auto linked = acm::link_socket(run_folder);
  if (!linked) log.warn("--acm: programs do not find the socket: {}", linked.error().message);
}

/// The interfaces matter more than the socket, so it may be missing. `predecessor`: 0 if there is
/// none.
void open_acm_socket(Dependencies& dependencies, std::uint32_t predecessor) {
  const auto& options = dependencies.options;
  if (!options.acm || dependencies.acm) return;
  auto socket = acm::Socket::open(options.control_access, static_cast<pid_t>(predecessor));
  if (socket) {
    dependencies.acm.emplace(std::move(*socket));
  } else {
    dependencies.logs.daemon->error("--acm: {}", socket.error().message);
  }
}

struct Restricted {
  std::optional<UsedRunFolder> run_folder;
  std::string privileges;  ///< what is kept, for the log
};

/// To be called before there is a second thread, and before anything of strangers is read.
Restricted drop_privileges(const Options& options, Logger& log) {
  const Needs needs{.has_kernel_devices = !is_on_softib(),
                    .limits_locked_memory = !raise_memory_lock_limit(),
                    .uses_files_of_others = uses_softib_of_another_user()};
  const auto account =
      choose_account(options.user, options.group, needs, management_device_files());
  auto run_folder = use_run_folder(account);
  link_acm_socket(options, run_folder ? run_folder->path() : run_folders().front(), log);
  std::vector<gid_t> groups;
  if (options.control_access.group) groups.push_back(*options.control_access.group);
  return {std::move(run_folder), give_up_privileges(account, capabilities_to_keep(needs), groups)};
}

/// To be called later than drop_privileges(), so that the log has nothing but the reason if the
/// daemon cannot start.
void log_privileges(Dependencies& dependencies) {
  if (std::exchange(dependencies.has_logged_privileges, true)) return;
  auto& log = *dependencies.logs.daemon;
  log.info("{}", dependencies.privileges);
  const auto obstacle = obstacle_to_sandbox();
  if (obstacle && dependencies.options.sandbox != SandboxMode::off)
    log.info("no sandbox: {}", *obstacle);
}

/// What a running daemon of the port hands over (--takeover).
std::optional<handover::Handover> take_over(const verbs::Device& device,
                                            Dependencies& dependencies) {
  const auto how = std::exchange(dependencies.takeover, Takeover::no);
  if (how == Takeover::no) return std::nullopt;
  auto& log = *dependencies.logs.daemon;
  const auto wanted = handover::hello_of(device, dependencies.options.pkeys);
  auto handover = dependencies.home.run(
      [&] { return handover::request_handover(wanted, how == Takeover::required, log); });
  if (!handover) return std::nullopt;
  handover::check_vlans(*handover, dependencies.options);
  handover::find_homes(*handover, dependencies.home);
  dependencies.changes.added.insert(handover->offer.added.begin(), handover->offer.added.end());
  dependencies.changes.deleted.insert(handover->offer.deleted.begin(),
                                      handover->offer.deleted.end());
  handover::check_names(*handover, wanted.guid, dependencies.options, dependencies.changes,
                        dependencies.home);
  log.info("taking over from process {}, ipoibd {}", handover->offer.pid,
           handover->offer.program_version);
  return handover;
}

/// The interfaces are served: only now is it certain that no other daemon has them.
void on_serving(Dependencies& dependencies) {
  dependencies.pid_file.write();
  log_privileges(dependencies);
  if (let_subnet_stay()) {
    dependencies.logs.daemon->info("the emulated subnet was started and will go on running");
  }
  if (dependencies.options.takeover !=
      Takeover::no) {  // the service manager may know another process
    notify_service_manager("MAINPID=" + std::to_string(::getpid()));
  }
  notify_service_manager("READY=1");
}

/// Runs the interfaces of a port until a signal ends them or the device is lost. Throws
/// std::runtime_error if anything is missing or fails later.
PortControl::Ended serve_on(const std::shared_ptr<const verbs::Device>& device,
                            Dependencies& dependencies) {
  const auto& options = dependencies.options;
  auto& logs = dependencies.logs;
  TraceRings rings;
  const CrashDump crash_dump(rings, STDERR_FILENO);
  boost::asio::io_context context(1);
  auto handover = take_over(*device, dependencies);
  HandedInterfaces handed;
  std::optional<PortControl::Predecessor> predecessor;
  if (handover) {
    handed = std::move(handover->interfaces);
    predecessor = PortControl::Predecessor{std::move(handover->connection), handover->offer.pid};
  }
  open_acm_socket(dependencies, predecessor ? predecessor->pid : 0);
  auto* const acm = dependencies.acm ? &*dependencies.acm : nullptr;
  const auto port = device->query().value();
  OpenPorts ports(context, options, logs);
  const auto primary = ports.open(PortRole::primary, device);
  std::optional<PortControl::Port> backup;
  if (auto found = open_backup(*device, options, *logs.daemon)) {
    backup.emplace(ports.open(PortRole::backup, std::move(found)));
  }
  CpuShares cpus(options.cpus);
  auto& trace = rings.add("control");
  InterfaceFactory factory({.context = context,
                            .devices = ports.devices(),
                            .options = options,
                            .home = dependencies.home,
                            .neighbours = dependencies.neighbours,
                            .logs = logs,
                            .rings = rings,
                            .control_trace = trace,
                            .cpus = cpus,
                            .handed = handed,
                            .trunk = dependencies.trunk.get(),
                            .acm = acm != nullptr ? &acm->counters : nullptr});
  PortControl control(
      {.context = context,
       .primary = primary,
       .backup = backup,
       .reopen = [&ports](PortRole role) { return ports.reopen(role); },
       .factory = factory,
       .options = options,
       .kept = dependencies.kept,
       .changes = dependencies.changes,
       .handed = handed,
       .own = [&ports] { return handover::hello_of(*ports.devices()[PortRole::primary], {}); },
       .trace = trace,
       .signals = dependencies.signals,
       .reload = [&] { return dependencies.configuration.reload(logs, dependencies.neighbours); },
       .log = *logs.daemon,
       .acm = acm,
       .home = &dependencies.home,
       .on_serving = [&dependencies] { on_serving(dependencies); }},
      std::move(predecessor));
  control.start(port);
  auto ended = control.run();
  if (!ended.device_lost && !ended.reason.empty()) throw std::runtime_error(ended.reason);
  return ended;
}

/// Returns whether the device was lost, and is to be waited for.
bool loses_device(const std::shared_ptr<const verbs::Device>& device, Dependencies& dependencies) {
  std::string reason;
  try {
    const auto ended = serve_on(device, dependencies);
    if (ended.reason.empty()) return false;
    reason = ended.reason;
  } catch (const std::runtime_error& error) {
    if (device->query()) throw;  // otherwise the loss of the device has caused the failure
    reason = program::text_of(error);
  }
  dependencies.logs.daemon->log(message_id(events::kDeviceLost), spdlog::level::warn,
                                "{}: waiting for {} to come back; the interfaces have no carrier",
                                reason, device->name());
  return true;
}

/// Like find_device(); meanwhile `ibarp` can ask about the kept interfaces or, before there are
/// any, about the one of --name.
std::optional<verbs::Device> wait_for_device(const Options& wanted, Dependencies& dependencies) {
  std::optional<WaitingInterfaces> waiting;
  std::string awaited;
  const auto on_wait = [&](const std::string& reason) {
    awaited = reason;
    std::vector<KeptInterface> interfaces;
    for (const auto& [name, kept] : dependencies.kept) interfaces.push_back(kept);
    if (interfaces.empty()) interfaces.push_back({.name = wanted.interface});
    waiting.emplace(
        WaitingInterfaces::Settings{.interfaces = std::move(interfaces),
                                    .device = wanted.device,
                                    .port = wanted.port,
                                    .reason = reason,
                                    .access = wanted.control_access,
                                    .acm = dependencies.acm ? &*dependencies.acm : nullptr},
        dependencies.home, dependencies.logs);
  };
  // The interfaces of the device will have the new configuration from the start.
  const auto on_reload = [&] {
    waiting.reset();  // its thread changes the levels of the log, too
    (void)dependencies.configuration.reload(dependencies.logs, dependencies.neighbours);
    on_wait(awaited);
  };
  return find_device(wanted, *dependencies.logs.daemon, on_wait, on_reload);
}

int run(Options read, const std::vector<std::string>& arguments) {
  Configuration configuration(std::move(read), arguments);
  const auto& options = configuration.options();
  Logging logs(options.log_target, options.log);
  if (options.softib && !is_under_softib()) {
    run_under_softib(*options.softib, options.port, arguments);
  }
  std::signal(SIGPIPE, SIG_IGN);
  raise_descriptor_limit();
  control::remove_unused_socket_folders();
  // Never destroyed: a signal that comes while the process ends does not change its exit status.
  static const auto& signals = *new HandledSignals;
  Dependencies dependencies{.configuration = configuration,
                            .options = options,
                            .logs = logs,
                            .home = linux::NetworkNamespace::open(options.netns).value(),
                            .signals = signals,
                            .kept = {},
                            .changes = {},
                            .neighbours = NeighbourStore(options.neighbours),
                            .trunk = make_trunk(options),
                            .pid_file = PidFile(options.pid_file),
                            .privileges = {},
                            .takeover = options.takeover,
                            .acm = {}};
  auto restricted = drop_privileges(options, *logs.daemon);
  dependencies.privileges = std::move(restricted.privileges);
  const Sandbox sandbox(options.sandbox, logs.daemon);
  auto wanted = options;
  const auto next_device = [&]() -> std::shared_ptr<const verbs::Device> {
    auto found = wait_for_device(wanted, dependencies);
    return found ? std::make_shared<const verbs::Device>(std::move(*found)) : nullptr;
  };
  auto device = next_device();
  while (device && loses_device(device, dependencies)) {
    wanted.device = device->name();
    wanted.wait = true;
    device.reset();
    device = next_device();
  }
  for (const auto& [name, kept] : dependencies.kept) {
    if (options.keep) break;
    if (const auto done = discard(kept, dependencies.home); !done)
      logs.daemon->warn("{}", done.error().message);
  }
  return kOrderly;
}

int fail(const std::string& why) {
  std::fprintf(stderr, "ipoibd: %s%s\n", why.c_str(), program::limit_remedy(why).c_str());
  return kFailure;
}

int print(const std::string& text) {
  const auto printed = program::print(text);
  return printed ? kOrderly : fail(printed.error().message);
}

}  // namespace
}  // namespace ipoib::daemon

int main(int argc, char** argv) {
  using namespace ipoib::daemon;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  ipoib::program::report_file_size_limit();
  try {
    const auto wanted = parse_options(arguments);
    if (const auto* const text = std::get_if<Information>(&wanted)) {
      return print(text->text);
    }
    const auto& options = std::get<Options>(wanted);
    if (options.cleanup) return clean_up(options) ? kOrderly : kFailure;
    if (options.reload) {
      return print(request_reload(options));
    }
    return run(options, arguments);
  } catch (const UsageError& error) {
    std::fprintf(stderr, "ipoibd: %s\n", error.what());
    return kUsage;
  } catch (const std::exception& error) {
    return fail(ipoib::program::text_of(error));
  }
}
