// Lists, adds and deletes interfaces.
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <optional>
#include <string_view>

#include "color.hpp"
#include "output.hpp"
#include "program/progress.hpp"
#include "run.hpp"
#include "table/table.hpp"
#include "text.hpp"

namespace ipoib::ibarp {

namespace json = boost::json;
using table::Align;

bool is_limited(const ibarp_info& info) { return info.membership == std::string_view("limited"); }

std::string interfaces(const std::vector<ibarp_info>& infos, const Command& command) {
  table::Table table(
      {{"DEV"}, {"PKEY"}, {"MEMBER"}, {"STATE"}, {"DEVICE"}, {"PORT", Align::right}});
  json::array all;
  for (const ibarp_info& info : infos) {
    const auto pkey = info.pkey != 0 ? hexadecimal(info.pkey, 4) : "-";
    const std::string membership = info.membership;
    table.add({ink(Ink::interface, info.interface), pkey,
               membership.empty() ? "-" : ink_state(membership), ink_state(info.state),
               info.device[0] != '\0' ? info.device : "-", std::to_string(info.port)});
    auto& line = all.emplace_back(json::object{{"interface", std::string(info.interface)},
                                               {"state", std::string(info.state)},
                                               {"device", std::string(info.device)},
                                               {"port", info.port}});
    if (info.pkey != 0) line.as_object()["pkey"] = pkey;
    if (!membership.empty()) line.as_object()["membership"] = membership;
  }
  if (command.json) return json::serialize(all) + "\n";
  return infos.empty() ? "" : table.text(command.width);
}

/// Skips interfaces whose daemon is not running.
Client daemon_of(const Command& command) {
  std::optional<Client> found;
  std::uint32_t pid = 0;
  std::string why;
  for (const std::string& name : interfaces_of(command)) {
    try {
      Client client(name);
      const auto its_pid = client.info().pid;
      if (found && its_pid != pid) {
        throw Failure(kUsage,
                      "several ipoibd are running: choose one by an interface of it with "
                      "\"dev IF\"");
      }
      pid = its_pid;
      if (!found) found.emplace(std::move(client));
    } catch (const Failure& failure) {
      if (failure.status() == kUsage) throw;
      why = failure.what();
    }
  }
  if (!found) throw Failure(kFailed, why);
  return std::move(*found);
}

namespace {

/// The interface that the daemon has for a partition; nullopt if it has none.
std::optional<std::string> interface_of(std::uint32_t pid, std::uint16_t pkey) {
  for (const std::string& name : interfaces_named("")) {
    const ibarp_info info = Client(name).info();
    if (info.pid == pid && ((info.pkey ^ pkey) & 0x7fffU) == 0) return name;
  }
  return std::nullopt;
}

}  // namespace

std::string add_interface(const Client& client, const Command& command) {
  if (command.may_exist) {
    const auto existing = interface_of(client.info().pid, command.pkey);
    if (existing && (command.name.empty() || command.name == *existing)) return "";
  }
  std::array<char, IBARP_NAME_SIZE> name{};
  {
    const program::BlockingProgress progress("adding the interface");
    client.check(ibarp_add_interface(client.get(), command.pkey,
                                     command.name.empty() ? nullptr : command.name.c_str(),
                                     name.data()));
  }
  const std::string warning = ibarp_warning(client.get());
  if (!warning.empty()) print_warning(warning);
  if (!command.json) return "";
  return json::serialize(json::array{json::object{{"interface", std::string(name.data())}}}) + "\n";
}

void fail_over(const Client& client, const Command& command) {
  const char* const device = command.to_device.empty() ? nullptr : command.to_device.c_str();
  client.check(ibarp_failover(client.get(), device, command.to_port));
}

void delete_interface(const Client& client) {
  const program::BlockingProgress progress("deleting " + client.interface());
  client.check(ibarp_delete_interface(client.get()));
}

}  // namespace ipoib::ibarp
