#include <algorithm>
#include <iostream>
#include <map>
#include <string>
#include <vector>

struct Failure {
	int code;
};

int main()
{
	std::vector<std::string> names{"oak", "ash", "hazel"};
	std::sort(names.begin(), names.end());
	std::map<std::string, size_t> lengths;
	for (const auto &name : names)
		lengths[name] = name.size();
	try {
		throw Failure{7};
	} catch (const Failure &failure) {
		std::cout << "caught " << failure.code << "\n";
	}
	for (const auto &[name, length] : lengths)
		std::cout << name << " " << length << "\n";
}
