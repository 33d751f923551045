// A platform for SimGrid's smpirun: the tree of links that the file named by SLURM_TOPO_PLATFORM describes.
#include <simgrid/s4u.hpp>

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

namespace {

struct Zone {
	sg4::NetZone* net;
	simgrid::kernel::routing::NetPoint* gateway;
};

void join(sg4::NetZone* above, simgrid::kernel::routing::NetPoint* point,
	  simgrid::kernel::routing::NetPoint* gateway, const std::string& name, double capacity, double latency)
{
	auto* link = above->create_split_duplex_link(name, capacity)->set_latency(latency)->seal();
	above->add_route(point, nullptr, gateway, nullptr, {{link, sg4::LinkInRoute::Direction::UP}}, true);
}

// The way out of a zone, in a zone of its own: SimGrid takes the number of an enclosing zone for that of a point
// inside it when a route ends at a router whose zone holds the other end in a nested one.
simgrid::kernel::routing::NetPoint* add_gateway(sg4::NetZone* net, const std::string& number)
{
	auto* own = sg4::create_star_zone("g" + number);
	own->set_parent(net);
	auto* router = own->create_router("r" + number);
	own->seal();
	net->add_route(own->get_netpoint(), nullptr, router, nullptr, std::vector<sg4::LinkInRoute>{}, true);
	return router;
}

} // namespace

extern "C" void load_platform(const sg4::Engine&)
{
	const char* path = std::getenv("SLURM_TOPO_PLATFORM");
	std::ifstream file(path ? path : "");
	std::string magic;
	int version = 0;
	size_t zones = 0, cores = 0;

	if (!(file >> magic >> version >> zones >> cores) || magic != "slurm-topo-platform" || version != 1 || zones < 1)
		throw std::runtime_error("SLURM_TOPO_PLATFORM names no platform of slurm-topo");
	std::vector<long> parent(zones + cores);
	std::vector<double> capacity(zones + cores), latency(zones + cores);
	for (size_t i = 0; i < zones + cores; i++)
		if (!(file >> parent[i] >> capacity[i] >> latency[i]) || parent[i] >= static_cast<long>(i < zones ? i : zones))
			throw std::runtime_error("the platform of slurm-topo is cut short");

	std::vector<Zone> zone(zones);
	for (size_t i = 0; i < zones; i++) {
		auto* net = sg4::create_star_zone("z" + std::to_string(i));
		if (i)
			net->set_parent(zone[parent[i]].net);
		zone[i] = {net, add_gateway(net, std::to_string(i))};
	}
	for (size_t c = 0; c < cores; c++) {
		size_t i = zones + c;
		auto* net = zone[parent[i]].net;
		auto* host = net->create_host("c" + std::to_string(c), 1e9)->seal();
		join(net, host->get_netpoint(), nullptr, "lc" + std::to_string(c), capacity[i], latency[i]);
	}
	// The innermost first: a zone is complete before the one above it is joined to it.
	for (size_t i = zones; i-- > 0;) {
		zone[i].net->seal();
		if (i)
			join(zone[parent[i]].net, zone[i].net->get_netpoint(), zone[i].gateway, "lz" + std::to_string(i),
			     capacity[i], latency[i]);
	}
}
