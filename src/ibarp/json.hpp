// Values of libibarp as JSON.
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "ipoib/ibarp.h"

namespace ipoib::ibarp {

[[nodiscard]] boost::json::object as_json(const std::string& interface, const ibarp_entry& entry);
[[nodiscard]] boost::json::object as_json(const std::string& interface, const ibarp_group& group);
[[nodiscard]] boost::json::object as_json(const std::string& interface,
                                          const ibarp_station& station);
/// The information of an interface. What is not known yet is left out.
[[nodiscard]] boost::json::object as_json(const ibarp_info& info);

}  // namespace ipoib::ibarp
