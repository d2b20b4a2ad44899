// Commands that change entries.
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "run.hpp"

namespace ipoib::ibarp {

void change(const Client& client, const Command& command) {
  using Verb = Command::Verb;
  const ibarp_address& address = *command.address;
  if (command.verb == Verb::remove) return client.check(ibarp_delete(client.get(), &address));
  const ibarp_set_mode mode = command.verb == Verb::add      ? IBARP_ADD
                              : command.verb == Verb::change ? IBARP_CHANGE
                                                             : IBARP_REPLACE;
  client.check(command.pins ? ibarp_pin(client.get(), &address, command.to.gid, mode)
                            : ibarp_set(client.get(), &address, &command.to, mode));
}

void load(const Client& client, const Command& command) {
  client.check(ibarp_load_neighbours(client.get(), command.file.c_str(), nullptr));
}

std::string flush(const Client& client, const Command& command) {
  std::uint64_t deleted = 0;
  client.check(ibarp_flush_matching(client.get(), &command.filter, &deleted));
  if (!command.json) return "";
  return boost::json::serialize(
      boost::json::object{{"interface", client.interface()}, {"deleted", deleted}});
}

}  // namespace ipoib::ibarp
