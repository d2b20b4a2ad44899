// Prints the state of a subnet as tables.
#pragma once

#include <boost/json/object.hpp>
#include <string>

namespace softib::cli {

/// `subnet` comes from subnetd::subnet_json().
[[nodiscard]] std::string show_table(const boost::json::object& subnet);

}  // namespace softib::cli
