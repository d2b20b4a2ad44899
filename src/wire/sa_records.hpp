// Records of the subnet administrator (IBA 15.2.5) with their component masks, as values.
// Each has parse() from a record's octets and emit() to them; sizes are those on the wire.
#pragma once

#include "wire/mc_member_record.hpp"  // IWYU pragma: export
#include "wire/node_record.hpp"       // IWYU pragma: export
#include "wire/path_record.hpp"       // IWYU pragma: export
#include "wire/port_info.hpp"         // IWYU pragma: export
#include "wire/sa_values.hpp"         // IWYU pragma: export
