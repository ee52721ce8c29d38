/* Nothing: each room of rewrite/ is linked with this and with the rooms that it may use, so that a call into any other
 * room is an error of the linker. */
int main(void) { return 0; }
