// Parses the words after the name of a subcommand, as those of ip(8) neigh, and removes them. Each
// subcommand has the argument "dev IF". All functions throw Failure.
#pragma once

#include <string>
#include <vector>

#include "command.hpp"

namespace ipoib::ibarp {

void take_nothing(Command& command, std::vector<std::string>& words);
void take_filters(Command& command, std::vector<std::string>& words);    ///< of show and flush
void take_entry(Command& command, std::vector<std::string>& words);      ///< an address, and HW
void take_levels(Command& command, std::vector<std::string>& words);     ///< MODULE=LEVEL
void take_interface(Command& command, std::vector<std::string>& words);  ///< may set another verb
void take_topics(Command& command, std::vector<std::string>& words);     ///< of monitor
void take_condition(Command& command, std::vector<std::string>& words);  ///< "up" or "down"
void take_file(Command& command, std::vector<std::string>& words);       ///< FILE
void take_port(Command& command, std::vector<std::string>& words);       ///< DEVICE:PORT

}  // namespace ipoib::ibarp
