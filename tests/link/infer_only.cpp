// The whole page pipeline and nothing else: the program whose symbols the check of layers reads.
int main() { return 0; }
