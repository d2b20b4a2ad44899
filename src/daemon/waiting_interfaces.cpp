#include "daemon/waiting_interfaces.hpp"

#include <unistd.h>

#include <cerrno>
#include <exception>

#include "control/capture_listener.hpp"
#include "ipoib/log.hpp"
#include "linux/link_settings.hpp"

namespace ipoib::daemon {

/// The handler of one interface.
class WaitingInterfaces::Waiting final : public control::Handler {
 public:
  Waiting(std::string name, const Settings& settings, const linux::NetworkNamespace& home)
      : name_(std::move(name)), settings_(settings), home_(home) {}

  void handle(control::InterfaceRequest request,
              std::function<void(control::Response)> done) override {
    // Nothing changes until the device is there, and then there is another server.
    if (std::holds_alternative<control::SubscribeRequest>(request)) {
      return done(control::Reply(control::Done{}));
    }
    if (!std::holds_alternative<control::InfoRequest>(request)) return done(refusal());
    try {
      done(control::Reply(information()));
    } catch (const std::exception& error) {  // the namespace cannot be entered
      done(Error(EIO, error.what()));
    }
  }
  void find_members(const Gid& /*mgid*/, std::function<void(control::Response)> done) override {
    done(refusal());
  }
  void add_interface(const control::AddInterfaceRequest& /*request*/,
                     std::function<void(control::Response)> done) override {
    done(refusal());
  }
  void delete_interface(std::function<void(control::Response)> done) override { done(refusal()); }
  [[nodiscard]] Error refusal() const {
    return Error(ENXIO, name_ + ": ipoibd waits for the RDMA device: " + settings_.reason);
  }

 private:
  [[nodiscard]] control::InterfaceInfo information() const {
    control::InterfaceInfo info;
    info.interface = name_;
    info.device = settings_.device;
    info.port = settings_.port;
    info.admin_up = home_.run([this] { return linux::is_up(name_); });
    info.state = "no_device";
    info.waiting_for = "the RDMA device: " + settings_.reason + " (ibv_devices lists the devices)";
    info.version = IPOIB_VERSION;
    info.pid = static_cast<std::uint32_t>(::getpid());
    return info;
  }

  std::string name_;
  Settings settings_;
  const linux::NetworkNamespace& home_;
};

WaitingInterfaces::WaitingInterfaces(const Settings& settings, const linux::NetworkNamespace& home,
                                     Logging& logs)
    : context_(1) {
  for (const auto& [name, mark, its_home] : settings.interfaces) {
    const auto& in = its_home ? *its_home : home;
    interfaces_.push_back(std::make_unique<Waiting>(name, settings, in));
    try {
      servers_.push_back(in.run([&] {
        return std::make_unique<control::Server>(
            context_,
            control::Server::Dependencies{
                .handler = *interfaces_.back(),
                .levels = logs.levels,
                .trace = no_rings_,
                .log = *logs.control,
                .on_capture =
                    [waiting = interfaces_.back().get()](const control::CaptureRequest& /*request*/,
                                                         const FileDescriptor& connection) {
                      control::refuse_capture(connection, waiting->refusal());
                    }},
            control::Server::Options{.interface = name, .access = settings.access});
      }));
    } catch (const std::exception& error) {
      logs.daemon->debug("{}", error.what());
    }
  }
  if (settings.acm != nullptr) {
    acm_.emplace(
        context_, *settings.acm,
        [](const wire::acm::Wanted& /*wanted*/, const acm::Server::Done& done) {
          done(wire::acm::Status::no_data);
        },
        *logs.control);
  }
  thread_ = std::thread([this] { context_.run(); });
}

WaitingInterfaces::~WaitingInterfaces() {
  context_.stop();
  thread_.join();
}

}  // namespace ipoib::daemon
