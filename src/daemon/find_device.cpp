#include "daemon/find_device.hpp"

#include <csignal>
#include <ctime>
#include <stdexcept>

#include "daemon/interfaces/softib_launcher.hpp"
#include "daemon/process/service.hpp"
#include "ipoib/log.hpp"
#include "ipoib/service_manager.hpp"

namespace ipoib::daemon {

namespace {

// Interval at which --wait looks for a device; there is no event for a new device.
constexpr timespec kRetryPause{1, 0};

std::string no_device(const Error& error) {
  if (is_under_softib()) return error.message;
  return error.message +
         "; load the driver of an HCA (ibv_devices lists devices), or use an emulated subnet: "
         "ipoibd --softib";
}

Result<verbs::Device> try_once(const Options& options) {
  auto device = verbs::Device::open(options.device, options.port, options.gid_index);
  if (!device) return Error(device.error().code, no_device(device.error()));
  // One that has failed may still be opened.
  if (auto port = device->query(); !port) return port.error();
  return device;
}

/// Returns the signal that has arrived meanwhile, if any.
std::optional<int> pause_until_retry() {
  sigset_t handled;
  sigemptyset(&handled);
  for (const int number : handled_signals()) sigaddset(&handled, number);
  const int number = sigtimedwait(&handled, nullptr, &kRetryPause);
  return number < 0 ? std::nullopt : std::optional(number);
}

}  // namespace

std::optional<verbs::Device> find_device(const Options& options, Logger& log,
                                         const std::function<void(const std::string&)>& on_wait,
                                         const std::function<void()>& on_reload) {
  std::string last_message;
  for (;;) {
    auto device = try_once(options);
    if (device) return std::move(*device);
    const auto& message = device.error().message;
    if (!options.wait) throw std::runtime_error(message);
    if (last_message.empty()) on_wait(message);
    if (message != last_message) log.info("waiting: {}", message);
    last_message = message;
    notify_service_manager("STATUS=waiting: " + message);
    if (watchdog_period()) notify_service_manager("WATCHDOG=1");
    const auto signal = pause_until_retry();
    if (signal == SIGHUP) {
      on_reload();
    } else if (signal) {
      return std::nullopt;
    }
  }
}

std::shared_ptr<const verbs::Device> open_backup(const verbs::Device& primary,
                                                 const Options& options, Logger& log) {
  if (!options.backup) return nullptr;
  auto device = verbs::Device::open(options.backup->device, options.backup->port);
  if (!device) {
    log.error("--backup {}: {}; serving without a backup until ipoibd is started again",
              options.backup->text(), device.error().message);
    return nullptr;
  }
  check_link_layers(primary.link_layer(), device->link_layer(), *options.backup);
  return std::make_shared<const verbs::Device>(std::move(*device));
}

void check_link_layers(verbs::LinkLayer primary, verbs::LinkLayer backup, const PortName& option) {
  if (primary == backup) return;
  throw std::runtime_error("--backup " + option.text() +
                           ": one port is of InfiniBand, the other one of RoCE: choose two of one "
                           "kind");
}

}  // namespace ipoib::daemon
