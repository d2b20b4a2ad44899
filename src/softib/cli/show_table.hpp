// The picture of a subnet for the eye.
#pragma once

#include <boost/json/object.hpp>
#include <string>

namespace softib::cli {

/// Several tables with aligned columns, from what picture() made.
[[nodiscard]] std::string show_table(const boost::json::object& picture);

}  // namespace softib::cli
